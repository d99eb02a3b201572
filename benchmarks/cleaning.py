"""How well pages are cleaned: acts against their own numbering, news against fundus' extraction.

    python -m benchmarks.cleaning FOLDER

FOLDER holds `eurlex-energy` (index.jsonl, html/*.html.gz), `eurlex-served-pages`, `fundus-de`
(`NAME.json` with the expected extraction of `NAME_DATE.html.gz`, one version a page, in their order) and
`blog-18f` (posts.jsonl.gz). Of news and posts it counts what is lost, and what is added, by kind.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.losses import Losses, blocks_of, blog_losses
from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex
from rag_assay.assets.cleaning.tree import parse_page
from rag_assay.warehouse.pages import decode

# ------------------------------------------------------------------------------------------- news


@dataclass(frozen=True)
class NewsFigures:
    """Means over the pages; `keywords_missed` names the pages whose news_keywords were not found."""

    pages: int
    title: float
    date: float
    f1: float
    precision: float
    recall: float
    authors: float
    keywords_missed: tuple[str, ...]


def news_pages(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each page with its expected extraction; publishers whose numbers of both differ are left out."""
    for expected in sorted(folder.glob("*.json")):
        versions: dict[str, Any] = json.loads(expected.read_text(encoding="utf-8"))
        pages = sorted(folder.glob(f"{expected.stem}_*.html.gz"))
        if len(pages) == len(versions):
            names = sorted(versions, key=lambda name: [int(part) for part in name[1:].split("_")])
            yield from ((page, versions[name]) for page, name in zip(pages, names, strict=True))


def measure_news(folder: Path) -> NewsFigures:
    """Compare title (invisible characters aside), day of publication and words of the body, page by page."""
    rows, missed = [], []
    for path, expected in news_pages(folder):
        page = gzip.decompress(path.read_bytes())
        draft = clean_article(page, "text/html", "")
        rows.append(
            (
                float(_visible(draft.title) == _visible(expected.get("title"))),
                float((draft.published_at or "")[:10] == str(expected.get("publishing_date") or "")[:10]),
                *overlap(draft.text, _body(expected["body"])),
                float(list(draft.authors) == (expected.get("authors") or [])),
            )
        )
        if re.search(rb"name=[\"']?news_keywords", page) and not draft.metadata.get("news_keywords"):
            missed.append(path.name)
    title, date, f1, precision, recall, authors = (
        sum(column) / len(rows) for column in zip(*rows, strict=True)
    )
    return NewsFigures(len(rows), title, date, f1, precision, recall, authors, tuple(missed))


def news_losses(folder: Path) -> Losses:
    """Compare news pages with their expected extraction; what came from elsewhere counts by kind."""
    losses = Losses()
    for path, expected in news_pages(folder):
        page, body = gzip.decompress(path.read_bytes()), expected["body"]
        blocks = [("summary", text) for text in body.get("summary") or []]
        for section in body["sections"]:
            blocks += [("heading", text) for text in section["headline"]]
            blocks += [("paragraph", text) for text in section["paragraphs"]]
        others = list(blocks_of(parse_page(decode(page, "text/html")[0])))
        losses.take(path.name, blocks, others, partial(clean_article, page, "text/html", ""))
    return losses


def overlap(found: str, expected: str) -> tuple[float, float, float]:
    """Return F1, precision and recall of the words of one text against another's, as multisets.

    >>> overlap("a b c d", "a b")
    (0.6666666666666666, 0.5, 1.0)
    """
    here, there = (Counter(re.findall(r"\w+", text.lower())) for text in (found, expected))
    common = sum((here & there).values())
    if not common:
        return 0.0, 0.0, 0.0
    precision, recall = common / here.total(), common / there.total()
    return 2 * precision * recall / (precision + recall), precision, recall


def _body(body: dict[str, Any]) -> str:
    parts = list(body.get("summary") or [])
    for section in body["sections"]:
        parts += [*section["headline"], *section["paragraphs"]]
    return "\n".join(parts)


def _visible(text: str | None) -> str:
    return re.sub("[\u00ad\u200b]", "", unicodedata.normalize("NFC", text or "")).strip()


# ------------------------------------------------------------------------------------------- acts


@dataclass
class ActFigures:
    """What was found wrong, one line each; empty lists are the target."""

    acts: int = 0
    articles: int = 0
    seconds: float = 0.0
    untitled: list[str] = field(default_factory=list)
    wrong_celex: list[str] = field(default_factory=list)
    wrong_date: list[str] = field(default_factory=list)
    misnumbered: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def own_articles(draft: DocumentDraft) -> list[str]:
    """Return the numbers of the act's own articles in their order; those in annexes are left out."""
    return [
        part["number"] or "?"
        for part in draft.metadata["structure"]
        if part["kind"] == "article" and "annex" not in part
    ]


def numbering_faults(numbers: list[str], deleted: list[str]) -> list[str]:
    """Return where articles are missing, double or out of order; deleted ones may miss, 7a may follow 7.

    >>> numbering_faults(["1", "2", "2a", "4"], ["3"]), numbering_faults(["1", "3", "3"], [])
    ([], ['3 after 1', '3 twice'])
    """
    faults, last, seen = [], 0, set()
    for number in numbers:
        lead = int(re.match(r"\d*", number)[0] or -1)  # type: ignore[index]
        gap = {str(between) for between in range(last + 1, lead)}
        if number in seen:
            faults.append(f"{number} twice")
        elif lead < last or not gap <= set(deleted) or (lead == last and number.isdigit()):
            faults.append(f"{number} after {last}")
        seen.add(number)
        last = lead
    return faults


def measure_acts(folder: Path) -> ActFigures:
    """Clean every act of a folder with an index, and compare with what the index says of it."""
    figures = ActFigures()
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines():
        known = json.loads(line)
        page = gzip.decompress((folder / known["file"]).read_bytes())
        start = time.perf_counter()
        try:
            draft = clean_eurlex(page, "text/html", "")
        except (UnusablePage, ValueError) as error:
            figures.failed.append(f"{known['file']}: {error}")
            continue
        figures.seconds += time.perf_counter() - start
        _compare(figures, draft, known)
    return figures


def _compare(figures: ActFigures, draft: DocumentDraft, known: dict[str, Any]) -> None:
    name, facts = known["file"], draft.metadata
    numbers = own_articles(draft)
    figures.acts += 1
    figures.articles += len(numbers)
    celex = str(facts.get("celex"))
    base = f"3{celex[1:10]}" if celex.startswith("0") else celex
    faults = numbering_faults(numbers, facts.get("deleted_articles", []))
    if not draft.title:
        figures.untitled.append(name)
    if base != known["celex"]:
        figures.wrong_celex.append(f"{name}: {celex}")
    if known["version_date"] not in (facts.get("document_date"), facts.get("version_date")):
        figures.wrong_date.append(f"{name}: {facts.get('document_date')}")
    if faults or not numbers:
        figures.misnumbered.append(f"{name}: {', '.join(faults) or 'no article'}")


def main(folder: Path) -> None:
    """Print the figures for the data below ``folder``."""
    if (folder / "eurlex-energy" / "index.jsonl").exists():
        acts = measure_acts(folder / "eurlex-energy")
        print(f"EUR-Lex: {acts.acts} acts, {acts.articles} articles, {acts.acts / acts.seconds:.0f} acts/s")
        for what in ("failed", "untitled", "wrong_celex", "wrong_date", "misnumbered"):
            found = getattr(acts, what)
            print(f"  {what.replace('_', ' ')}: {len(found)}", *found, sep="\n    ")
    if any((folder / "fundus-de").glob("*.json")):
        news = measure_news(folder / "fundus-de")
        print(
            f"News: {news.pages} pages, title {news.title:.1%}, date {news.date:.1%}, body F1 {news.f1:.3f} "
            f"(precision {news.precision:.3f}, recall {news.recall:.3f}), authors {news.authors:.1%}, "
            f"news_keywords missed: {len(news.keywords_missed)}"
        )
        print("  Words of news pages:", news_losses(folder / "fundus-de").table(), sep="\n")
    if (folder / "blog-18f" / "posts.jsonl.gz").exists():
        for what, losses in blog_losses(folder / "blog-18f").items():
            print(f"Words of {what}:", losses.table(), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FOLDER")
    main(Path(sys.argv[1]))
