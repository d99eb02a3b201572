"""The page Documents: what each document keeps of its page, and one beside the other."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from urllib.parse import urlencode

import streamlit as st
from markupsafe import Markup

from rag_assay.assets.cleaning.fidelity import BlockOutcome
from rag_assay.assets.cleaning.page_cleaner import HTML
from rag_assay.evals.reporting.display import breakable, count, plain, truncate
from rag_assay.evals.reporting.page import render_sections
from rag_assay.evals.reporting.sections import (
    Block,
    Column,
    Definitions,
    Html,
    PageParagraph,
    PageSection,
    Row,
    Table,
    TableFigure,
    Tiles,
    numbers,
)
from rag_assay.orchestration.corpora.document_list import (
    ListedDocument,
    OpenedDocument,
    document_rows,
    open_document,
    totals,
    worst_first,
)
from rag_assay.orchestration.web.address_state import choose_one, page_number, switch, type_words
from rag_assay.orchestration.web.board import dagster_url, or_trouble
from rag_assay.orchestration.web.chat.answer_html import MOST, label, text_html
from rag_assay.orchestration.web.components.result_views import show_sections
from rag_assay.orchestration.web.languages import Words, app_texts, named, several
from rag_assay.orchestration.web.page_context import PageContext
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.paths import Home

SHEETS = ("results", "questions")
PAGE = 50  # documents that are shown at once
TITLE, NOTE = 90, 160  # characters in the table
FILTERS = ("search", "source", "lost", "guessed", "date")
VIEWS = ("blocks", "only_lost", "markup")
KEY = "documents"
_MARKED = frozenset(
    {"headings", "items", "definitions", "rows", "code", "images"}
)  # others are counted alone

TEXTS = app_texts("documents")
KINDS = app_texts("documents_kinds")
BLOCKS = app_texts("documents_blocks")
ORIGINS = app_texts("documents_origins")
"""Where a date or a language is from; what is not here keeps its name."""


def render(context: PageContext) -> None:
    words = context.words(TEXTS)
    with st.spinner(words("reading")):
        rows = or_trouble(lambda: _rows(context.reference, context.workspace, _stamp(context.workspace)))
    if rows is None:
        return
    if context.get("document"):
        _show_one(context, rows, words)
    else:
        _show_list(context, rows, words)


def _stamp(workspace: Home) -> str:
    store = ArtifactStore(workspace)
    return repr([(source, store.pointed_at("documents", source)) for source in store.keys("documents")])


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs={Home: lambda home: str(home.root)})
def _rows(reference: str, workspace: Home, stamp: str) -> list[ListedDocument]:
    del stamp
    return worst_first(document_rows(reference, workspace))


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs={Home: lambda home: str(home.root)})
def _opened(_listed: ListedDocument, doc_id: str, workspace: Home, stamp: str) -> OpenedDocument:
    del doc_id, stamp
    return open_document(_listed, workspace)


# The list ------------------------------------------------------------------------------------------------


def _show_list(context: PageContext, rows: Sequence[ListedDocument], words: Words) -> None:
    st.subheader(words("title"), anchor=False)
    command = f"assay documents {shlex.quote(context.reference)}"
    st.caption(words("about", command=command))
    if url := dagster_url():
        st.link_button(words("dagster"), f"{url}/assets/documents", icon=":material/open_in_new:")
    found = _filter(context, rows, words)
    sections = [*_summary(context, rows, words), _listed(context, found, totals(rows), words)]
    _follow(context, show_sections(KEY, render_sections(sections)))


def _filter(context: PageContext, rows: Sequence[ListedDocument], words: Words) -> list[ListedDocument]:
    kinds, origins = context.words(KINDS), context.words(ORIGINS)
    dates = Counter(row.date_source or "none" for row in rows if not row.reason)
    sources = sorted({row.source for row in rows})
    losses = {"": words("any"), "some": words("lost_some"), "document": words("lost_document")}
    losses |= {kind: kinds(kind) for kind in totals(rows)} | {"scans": words("lost_scans")}
    guesses = {"": words("any"), "date": words("guessed_date"), "language": words("guessed_language")}
    from_ = {one: f"{named(one, ORIGINS, origins)} ({count(n)})" for one, n in dates.most_common()}

    def choice(name: str, titles: dict[str, str]) -> str:
        return choose_one(context, name, words(name), list(titles), titles.__getitem__, 230)

    with st.container(horizontal=True, key="filters", vertical_alignment="bottom"):
        search = type_words(context, "search", words("search"))
        source = choice("source", {"": words("any"), **{one: one for one in sources}}) if sources[1:] else ""
        lost, guessed = choice("lost", losses), choice("guessed", guesses)
        date = choice("date", {"": words("any"), **from_})
    wanted = (search, source, lost, guessed, date)
    return _matching(rows, dict(zip(FILTERS, wanted, strict=True)))


def _matching(rows: Sequence[ListedDocument], wanted: Mapping[str, str]) -> list[ListedDocument]:
    """wanted: value of each of `FILTERS`, "" for any"""
    search, source, lost, guessed, date = (wanted[name] for name in FILTERS)

    def fits(row: ListedDocument) -> bool:
        losses = {"some": row.has_losses, "document": row.reason, "scans": row.scanned_pages}
        guesses = {"date": row.is_date_guessed, "language": row.is_language_guessed}
        dates = {""} if row.reason else {"", row.date_source or "none"}
        is_named = search.casefold() in f"{row.title or ''}\n{row.url}".casefold()
        is_there = is_named and source in {"", row.source} and date in dates
        has_lost = not lost or lost in row.lost or bool(losses.get(lost))
        return is_there and has_lost and (not guessed or guesses.get(guessed, False))

    return [row for row in rows if fits(row)]


def _link(context: PageContext, text: str, **change: str | None) -> Markup:
    kept = {name: context.get(name) for name in (*FILTERS, "page", "side")}
    address = "?" + urlencode(context.address(**{**kept, **change}))
    return Markup('<a href="{}" dir="auto">{}</a>').format(address, text)


def _follow(context: PageContext, followed: dict[str, str] | None) -> None:
    if followed:
        context.go(KEY, **followed)


def _summary(context: PageContext, rows: Sequence[ListedDocument], words: Words) -> Iterator[PageSection]:
    kinds, documents = context.words(KINDS), [row for row in rows if not row.reason]
    lost = sum(row.has_losses for row in documents)
    blocks: list[Block] = []
    if dropped := len(rows) - len(documents):
        blocks.append(_link(context, several(words, "dropped", dropped), lost="document", page=None))
    table: list[Row] = []
    for kind, (came, kept) in totals(rows).items():
        losing = sum(kind in row.lost for row in rows)
        link = _link(context, count(losing), lost=kind, page=None)
        figures = (count(came), count(kept), count(came - kept))
        table.append([kinds(kind), *figures, link if losing else "0"])
    title = several(words, "summary", len(documents), lost=count(lost))
    columns = [Column(words("kind")), *numbers(*map(words, ("came", "stayed", "lost_n", "losing")))]
    blocks.append(Table(title, columns, table) if table else words("nothing_counted"))
    yield PageSection("kept", title, blocks)


def _listed(
    context: PageContext, found: Sequence[ListedDocument], total: dict[str, list[int]], words: Words
) -> PageSection:
    kinds = context.words(KINDS)
    most = max(0, (len(found) - 1) // PAGE)
    at = min(page_number(context), most)
    shown = found[at * PAGE : (at + 1) * PAGE]
    if not shown:
        return PageSection("listed", words("worst"), [words("none")])
    columns = [Column(words("document"), style="cell"), *numbers(words("lost_n"))]
    columns += [Column(kinds(kind), about=words("kept_of"), is_number=True) for kind in total]
    columns += [Column(words(name)) for name in ("published", "language", "note")]
    where = words("where", first=at * PAGE + 1, last=at * PAGE + len(shown), n=count(len(found)))
    steps = [where]
    for name, page in (("previous", at), ("next", at + 2)):
        if 1 <= page <= most + 1:
            steps.append(_link(context, words(name), page=str(page)))
    bar = PageParagraph(Markup(" · ").join(steps), "where")
    table = Table(words("title"), columns, [_row(context, row, total, words) for row in shown])
    return PageSection("listed", words("worst"), [bar, table, *([bar] if most else [])])


def _row(context: PageContext, row: ListedDocument, total: dict[str, list[int]], words: Words) -> Row:
    title = truncate(row.title or row.url.rstrip("/").rpartition("/")[2] or row.url, TITLE)
    link = _link(context, breakable(title), document=row.doc_id)
    name = TableFigure(link, (truncate(row.url, TITLE),))
    lost = sum(row.lost.values())
    figures = ["{1}/{0}".format(*row.fidelity[kind]) if kind in row.fidelity else "" for kind in total]
    about = [_date(context, row), _language(context, row)] if not row.reason else ["", ""]
    return [name, count(lost) if row.fidelity else "", *figures, *about, _note(row, words)]


def _note(row: ListedDocument, words: Words) -> str:
    if row.reason:
        return truncate(words("no_document", reason=row.reason), NOTE)
    pages = ", ".join(map(str, row.scanned_pages))
    return truncate(words("scans", pages=pages), NOTE) if pages else ""


def _date(context: PageContext, row: ListedDocument) -> str:
    origin = named(row.date_source or "none", ORIGINS, context.words(ORIGINS))
    return f"{row.published_at[:10]} ({origin})" if row.published_at else origin


def _language(context: PageContext, row: ListedDocument) -> str:
    if not row.language:
        return ""
    return f"{row.language} ({named(row.language_source or 'none', ORIGINS, context.words(ORIGINS))})"


# One document --------------------------------------------------------------------------------------------


def _show_one(context: PageContext, rows: Sequence[ListedDocument], words: Words) -> None:
    row = next((row for row in rows if row.doc_id == context.get("document")), None)
    if row is None:
        st.warning(words("unknown"))
        context.link(KEY, words("back"), icon=":material/arrow_back:")
        return
    with st.spinner(words("reading")):
        stamp = _stamp(context.workspace)
        opened = or_trouble(lambda: _opened(row, row.doc_id, context.workspace, stamp))
    if opened is None:
        return
    found = _matching(rows, {name: context.get(name) or "" for name in FILTERS})
    _follow(context, show_sections("facts", render_sections([_facts(context, opened, found, words)])))
    view = "blocks"
    if opened.page and opened.page.outcomes:
        view = switch(context, "side", words("view"), VIEWS, words, "blocks")
    note, page = _page_side(context, opened, view, words)
    st.caption(label(note, 400))
    text = _region(words("text_side"), f'<div class="clean" dir="auto">{_text(opened)}</div>')
    sides = [
        PageSection("page-side", words("page_side"), [page] if page else []),
        PageSection("text-side", words("text_side"), [text if opened.text else words("no_words")]),
    ]
    show_sections("sides", render_sections(sides), "sides")


def _facts(
    context: PageContext, opened: OpenedDocument, found: Sequence[ListedDocument], words: Words
) -> PageSection:
    row, kinds = opened.listed, context.words(KINDS)
    at = next((at for at, one in enumerate(found) if one.doc_id == row.doc_id), None)
    around = [] if at is None else [("worse", at - 1), ("better", at + 1)]
    links = [("back", None), *((name, found[to].doc_id) for name, to in around if 0 <= to < len(found))]
    steps = [_link(context, words(name), document=to) for name, to in links]
    page, size = opened.page, ""
    if page is not None:
        size = words("size", type=page.media_type, kb=count(-(-page.size // 1000)))
    facts = {
        "address": row.url,
        "source": row.source,
        "file": size,
        "published": "" if row.reason else _date(context, row),
        "language": _language(context, row),
        "authors": ", ".join(opened.authors),
        "sections": count(row.sections) if row.sections else "",
        "note": _note(row, words),
    }
    shown = [(words(name), truncate(text, 4 * TITLE)) for name, text in facts.items() if text]
    groups: list[list[Block]] = [[Definitions(shown)]]
    if row.fidelity:
        columns = [Column(words("kind")), *numbers(*map(words, ("came", "stayed", "lost_n")))]
        counts: list[Row] = [
            [kinds(kind), count(came), count(kept), count(came - kept)]
            for kind, (came, kept) in totals([row]).items()
        ]
        groups.append([Table(words("kept_of"), columns, counts)])
    blocks: list[Block] = [PageParagraph(Markup(" · ").join(steps), "where"), Tiles(groups)]
    return PageSection("facts", truncate(row.title or row.url, 2 * TITLE), blocks)


def _page_side(
    context: PageContext, opened: OpenedDocument, view: str, words: Words
) -> tuple[str, Block | None]:
    page = opened.page
    if page is None:
        return opened.why, None
    if page.outcomes and view != "markup":
        note = words("legend" if page.is_counted else "not_counted")
        lost = sum(n for kind, n in opened.listed.lost.items() if kind in _MARKED)
        if page.is_counted and sum(map(_is_lost, page.outcomes)) != lost:
            note += " " + words("recounted")
        shown = [one for one in page.outcomes if view == "blocks" or _is_lost(one)]
        return note, _blocks(context, shown, words) if shown else words("no_lost")
    name = "plain_text" if page.text else "no_text"
    if page.media_type == "application/pdf":
        name = "pdf_text" if page.text else name
    elif page.media_type in HTML:
        name = "as_markup" if page.outcomes else "too_large"
    stored = f'<div class="stored" dir="auto">{text_html(page.text)}</div>'
    return words(name), _region(words("page_side"), stored) if page.text else None


def _is_lost(one: BlockOutcome) -> bool:
    return one.counted != "" and not one.is_kept


def _blocks(context: PageContext, shown: Sequence[BlockOutcome], words: Words) -> Html:
    names = context.words(BLOCKS)
    items, left = [], MOST
    for one in shown:
        if left <= 0:
            break
        left -= len(one.text) + 20
        state = "lost" if _is_lost(one) else "" if one.is_kept else "out"
        kind = named(one.kind, BLOCKS, names)
        said = f"{kind} · {words(f'block_{state}')}" if state else kind
        items.append(
            f'<li class="{state}"><span class="kind">{escape(said)}</span>'
            f'<div dir="auto">{escape(plain(one.text[:MOST]))}</div></li>'
        )
    more = len(shown) - len(items)
    rest = f'<p class="left-out">{escape(several(words, "more_blocks", more))}</p>' if more else ""
    return _region(words("page_side"), f'<ol class="blocks">{"".join(items)}</ol>{rest}')


def _text(opened: OpenedDocument) -> str:
    text, spans = opened.text, []
    for section in opened.sections:
        end = section["start"] + len(section["heading"])
        if text[section["start"] : end] == section["heading"]:
            spans.append((section["start"], end))
    return text_html(text, sorted(spans))


def _region(title: str, html: str) -> Html:
    box = f'<div class="side" role="region" tabindex="0" aria-label="{escape(title)}">{html}</div>'
    return Html(Markup(box))  # noqa: S704 -- all texts in it are escaped
