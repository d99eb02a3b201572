"""Renders pages as Markdown, as a code host shows it; of a report verdict, trust, leaderboards and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.display import plain
from rag_assay.evals.reporting.leaderboard_section import leaderboard_sections
from rag_assay.evals.reporting.sections import (
    PAGE_ONLY,
    Block,
    Bullets,
    Code,
    Column,
    Definitions,
    Details,
    PageHeading,
    PageParagraph,
    PageSection,
    Table,
    TableFigure,
    Tiles,
    TitledPage,
    bold,
    plain_text,
)
from rag_assay.evals.reporting.trust import trust_lines

_SIGNS = re.compile(
    r"[\\`*_{}\[\]|<>~&$]|^[#+\-=](?=\s|$|[#=+\-])|(?<=^\d)[.)](?=\s|$)|(?<=^\d\d)[.)](?=\s|$)"
)
_LINKS = re.compile(r"(?<=[A-Za-z])(:)(?=//)|(?<=[Ww])(\.)(?=\w)")
_MENTIONS = re.compile(r"@(?=\w)|#(?=\d)|(?<=GH)-(?=\d)")
NOWHERE = "\u200b"  # after an `@` or `#`: no user or issue of a code host is notified


def render_markdown(data: ReportData) -> str:
    """Return GitHub's Markdown; all text of the study is escaped."""
    decision, *why = data.verdict.sentences
    columns = [Column(name) for name in ("", "What", "State", "Because")]
    rows = [(one.sign, one.name, one.word, one.text) for one in trust_lines(data)]
    sections = [PageSection("", "What this rests on", [Table("Trust", columns, rows)])]
    sections += [PageSection("", "Read this first", [Bullets(data.notes)])] if data.notes else []
    lead: list[Block] = [one for one in (data.part, data.description) if one]
    lead += [bold(decision), Bullets(why)]
    made = f"Made {data.created_at:%Y-%m-%d %H:%M UTC}, seed {data.seed}. Intervals: {data.interval}."
    page = render_page(TitledPage(data.study, "", lead, [*sections, *leaderboard_sections(data)]))
    return f"{page}\n*{escape_markdown(made)}*\n"


def render_page(page: TitledPage) -> str:
    parts = [f"# {escape_markdown(page.title)}", *map(_block, page.lead)]
    for section in page.sections:
        parts += [f"## {escape_markdown(section.title)}", *map(_block, section.blocks)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _block(block: Block) -> str:  # noqa: PLR0911 -- one for each kind of block
    match block:
        case str():
            return _inline(block)
        case PageParagraph():
            return _inline(block.text)
        case PageHeading():
            return f"{'#' * block.level} {_inline(block.text)}"
        case Table():
            return _table(block)
        case Bullets():
            return "\n".join(f"- {_inline(item)}" for item in block.items)
        case Definitions():
            return "\n".join(f"- {_inline(term)}: {_inline(text)}" for term, text in block.items)
        case Details():
            inner = "\n\n".join(filter(None, map(_block, block.blocks)))
            return f"- {_inline(block.title)}\n" + re.sub("^(?=.)", "  ", inner, flags=re.M)
        case Code():
            return re.sub("^", "    ", plain(block.text), flags=re.M)
        case Tiles():
            return "\n\n".join(_block(one) for group in block.groups for one in group)
    return ""  # what only a page shows


def _inline(text: str) -> str:
    if not isinstance(text, Markup):
        return escape_markdown(text)
    parts = [escape_markdown(Markup(one).striptags()) for one in re.split("</?b>", text)]  # noqa: S704
    return " ".join(f"**{one}**" if at % 2 else one for at, one in enumerate(parts) if one)


def _figure(one: str | TableFigure) -> str:
    if isinstance(one, str):
        return _inline(one)
    small = f" ({_inline('; '.join(map(plain_text, one.small)))})" if one.small else ""
    behind = f" **({_inline(one.behind)})**" if one.behind else ""
    return f"{_inline(one.text)}{small}{behind}"


def _table(table: Table) -> str:
    shown = [at for at, one in enumerate(table.columns) if not set(one.style.split()) & set(PAGE_ONLY)]
    columns = [table.columns[at] for at in shown]
    head = [_inline(f"{one.title} ({one.unit})" if one.unit else one.title) for one in columns]
    rows = [[_figure(row[at]) for at in shown] for row in (*table.rows, *table.foot)]
    parts = [
        _inline(table.about),
        _lines(head, rows, [one.is_number for one in columns]),
        _inline(table.rest),
    ]
    return "\n\n".join(filter(None, parts))


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    rule = ["---:" if is_number else "---" for is_number in right]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def escape_markdown(text: str) -> str:
    r"""Escape markup, links, mentions and line breaks.

    >>> escape_markdown("a|b <b>*c*</b>") == r"a\|b \<b\>\*c\*\</b\>"
    True
    >>> texts = "1. one\n# two", "# one", "https://x.example www.example"
    >>> tuple(map(escape_markdown, texts))
    ('1\\. one # two', '\\# one', 'https\\://x.example www\\.example')
    >>> escape_markdown("@you") == "@" + NOWHERE + "you"
    True
    """
    flat = plain(re.sub(r"\s+", " ", text))
    signs = _SIGNS.sub(lambda found: f"\\{found[0]}", flat)
    return _MENTIONS.sub(lambda found: found[0] + NOWHERE, _LINKS.sub(lambda found: f"\\{found[0]}", signs))


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return _lines(head, [[escape_markdown(cell) for cell in row] for row in rows], [False] * len(head))
