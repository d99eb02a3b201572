"""Articles that an act quotes are not its own, in every generation of markup; none of its own is hidden."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.cleaning import own_articles
from rag_assay.assets.cleaning.draft import DocumentDraft
from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex

ACTS = Path(__file__).resolve().parents[5] / "shared" / "data" / "eurlex-energy"

# A line of a test act: "# 4" is the title of its own article 4, "> ‘Article 5" the title of one that it
# quotes, anything else a paragraph.
Render = Callable[[list[str]], str]


def modern(lines: list[str]) -> str:
    """Today's pages: each of the act's own articles is an element that has its name."""
    body, inside = '<div class="eli-main-title"><p class="oj-doc-ti">REGULATION (EU) 2021/5</p></div>', ""
    for line in lines:
        if line.startswith("# "):
            number = line.removeprefix("# ")
            title = f'<p class="oj-ti-art">Article {number}</p>'
            body += f'{inside}<div class="eli-subdivision" id="art_{number}">{title}'
            inside = "</div>"
        else:
            quoted = line.startswith("> ")
            body += f'<p class="oj-{"ti-art" if quoted else "normal"}">{line.removeprefix("> ")}</p>'
    return f'<html><body><div class="eli-container">{body}{inside}</div></body></html>'


def older(lines: list[str]) -> str:
    """Pages of the 2000s: classes, but no elements around the articles."""
    body = '<p class="doc-ti">REGULATION (EC) No 5/2005</p>'
    for line in lines:
        title = line.replace("# ", "Article ").removeprefix("> ")
        kind = "ti-art" if line[:2] in ("# ", "> ") else "doc-ti" if line == "ANNEX" else "normal"
        body += f'<p class="{kind}">{title}</p>'
    return f"<html><body>{body}</body></html>"


def consolidated(lines: list[str]) -> str:
    """Consolidated texts: quoted articles have a class of their own."""
    body = '<p class="title-doc-first">REGULATION (EU) 2021/5</p>'
    for line in lines:
        kind = {"# ": "title-article-norm", "> ": "title-article-quoted"}.get(line[:2], "norm")
        body += f'<p class="{kind}">{line.replace("# ", "Article ").removeprefix("> ")}</p>'
    return f"<html><body>{body}</body></html>"


def plain(lines: list[str]) -> str:
    """The oldest pages: paragraphs and nothing else."""
    text = [line.replace("# ", "Article ").removeprefix("> ") for line in lines]
    body = "".join(f"<p>{line}</p>" for line in ["Regulation No 5", "THE COUNCIL,", *text])
    return f'<html><body><div id="TexteOnly"><p><TXT_TE>{body}</TXT_TE></p></div></body></html>'


GENERATIONS = pytest.mark.parametrize("render", [modern, older, consolidated, plain])
MARKS = pytest.mark.parametrize(
    "marks", ["‘’", "“”", "„“", "„”", "«»", "»«", '""', "''"], ids=lambda marks: f"{marks[0]}{marks[1]}"
)


def clean(html: str) -> DocumentDraft:
    return clean_eurlex(html.encode(), "text/html; charset=utf-8", "")


def own(render: Render, *lines: str) -> list[str]:
    return own_articles(clean(render(list(lines))))


@GENERATIONS
@MARKS
def test_a_quoted_article_is_text_of_the_one_that_quotes_it(render: Render, marks: str) -> None:
    act = (
        "# 1", "Replace:", f"> {marks[0]}Article 2", "Heading", f"Light.{marks[1]};", "# 2", "It applies.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2"]


@GENERATIONS
@MARKS
def test_of_several_quoted_articles_none_is_the_acts_own(render: Render, marks: str) -> None:
    act = (
        "# 1", "Replace:", f"> {marks[0]}Article 2", "Light.", "> Article 3", "Dark.", "> Article 3a",
        f"Dim{marks[1]}.", "# 2", "It applies.", "# 3", "It ends.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2", "3"]


@GENERATIONS
@MARKS
def test_a_quotation_that_nothing_closes_hides_no_article(render: Render, marks: str) -> None:
    act = (
        "# 1", "Replace:", f"> {marks[0]}Article 7", "Light.", "> Article 8", "Dark.",
        "# 2", "It applies.", "# 3", "It ends.", "Done at Brussels, 1 May 2021.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2", "3"]


@GENERATIONS
@MARKS
def test_the_close_of_a_later_quotation_is_not_that_of_an_earlier_one(render: Render, marks: str) -> None:
    act = (
        "# 1", "Replace:", f"> {marks[0]}Article 7", "Light.", "# 2", "Insert:",
        f"> {marks[0]}Article 9", f"Dim.{marks[1]}", "# 3", "It ends.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2", "3"]


@pytest.mark.parametrize("ends", [[], ["ANNEX", "# 1", "It is void."]])
@pytest.mark.parametrize("render", [older, plain])
@MARKS
def test_a_close_beyond_the_acts_own_articles_is_not_believed(
    render: Render, marks: str, ends: list[str]
) -> None:
    act = (
        "# 1", "Replace:", f"> {marks[0]}Article 7", "Light.", "# 2", "It applies.", "# 3",
        f"It ends{marks[1]}.", *ends,
    )  # fmt: skip
    assert own(render, *act) == ["1", "2", "3"]


@GENERATIONS
@MARKS
def test_a_quotation_that_opens_in_a_line_quotes_what_follows(render: Render, marks: str) -> None:
    act = (
        "# 1", f"the following is inserted: {marks[0]}Article 8a", "Lamps", "> Article 8b", "Dim.",
        "> Article 2", f"Dark.{marks[1]}", "# 2", "It applies.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2"]


@pytest.mark.parametrize("marks", ["‘’", "“”", "„“", "«»", '""'])
@pytest.mark.parametrize("render", [older, plain])
def test_a_quotation_that_begins_with_a_paragraph_quotes_the_articles_below(
    render: Render, marks: str
) -> None:
    act = (
        "# 1", f"Article 7 ends so: {marks[0]}3. Lamps are dim.", "> Article 2", f"They are dark.{marks[1]}",
        "# 2", "It applies.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2"]


@GENERATIONS
def test_marks_in_marks_end_nothing_early(render: Render) -> None:
    act = (
        "# 1", "Replace:", "> ‘Article 7", "the word “lamp” and the word ‘light’", "> Article 8",
        "Member States’ lamps’.", "# 2", "„Lampe“ means “lamp”.", "# 3", "It ends.",
    )  # fmt: skip
    assert own(render, *act) == ["1", "2", "3"]


@GENERATIONS
@pytest.mark.parametrize(
    "text",
    [
        'a tube of 12" and one of 8"', "the Member States’", "‘lamp’ means a lamp;", "it’s 5' long",
        'called: "the lamp', "called: “the lamp", "see: ‘the lamp", "„Lampe",
    ],
)  # fmt: skip
def test_marks_of_other_things_hide_no_article(render: Render, text: str) -> None:
    assert own(render, "# 1", text, "# 2", text, "# 3", "It ends.") == ["1", "2", "3"]


@pytest.mark.parametrize("render", [older, plain])
def test_quoted_chapters_and_annexes_are_text(render: Render) -> None:
    lines = [
        "# 1",
        "Insert:",
        "‘CHAPTER II",
        "LAMPS",
        "> Article 2",
        "Dim.",
        "ANNEX",
        "List’.",
        "# 2",
        "It ends.",
    ]
    assert [part["kind"] for part in clean(render(lines)).metadata["structure"]][-2:] == [
        "article",
        "article",
    ]


def test_a_quotation_in_a_cell_ends_with_the_cell() -> None:
    cell = (
        "<table><tr><td><p>(1)</p></td><td><p>Replace:</p><p class='ti-art'>‘Article 7</p></td></tr></table>"
    )
    html = older(["# 1", "CELL", "# 3", "It ends."]).replace("CELL", cell)
    assert own_articles(clean(html)) == ["1", "3"]


@pytest.mark.parametrize(
    ("title", "number"),
    [
        ("Article 8a", "8a"), ("Article 8 bis", "8bis"), ("Articolo 8-bis", "8bis"),
        ("Artículo 29 quinquies", "29quinquies"),
        ("Artikel 8 a", "8a"), ("Article premier", "1"), ("Article 1er", "1"), ("Artigo 1º", "1"),
        ("Sole Article", "1"),
        ("Artículo único", "1"), ("Einziger Artikel", "1"), ("1 artikla", "1"), ("Άρθρο 4", "4"),
    ],
)  # fmt: skip
def test_articles_of_other_names(title: str, number: str) -> None:
    for render in (modern, older, consolidated, plain):
        html = render(["# 1", "It applies."]).replace("Article 1", title)
        assert own_articles(clean(html)) == [number]


def test_ten_thousand_open_quotations_take_no_time() -> None:
    lines = ["# 1", *["insert: ‘CHAPTER I", "insert: “CHAPTER I", "insert: \"Article 9"] * 3_000]  # fmt: skip
    assert own(plain, *lines) == ["1"]


# How each generation begins an article, and the classes of its paragraphs and of the titles it quotes.
BEGINNINGS = (
    (r'<p[^>]*class="title-article-norm"', "norm", "title-article-quoted"),
    (r'<div[^>]*id="art_\w+"', "oj-normal", "oj-ti-art"),
    (r'<p[^>]*class="ti-art"', "normal", "ti-art"),
    (r"<p>\s*Article \d+\w?\s*</p>", "", ""),
)


QUOTATIONS = (
    ["The following is inserted:", "> ‘Article 200", "Light.", "> Article 201", "Dim."],  # never closed
    ["The following is inserted: “Article 200", "Heading", "Light.", "> Article 201", "Dim.”"],
    ["The following is inserted:", "> ‘Article 200", "Light.", "> Article 201", "Dim.’;"],
)


@pytest.mark.skipif(not ACTS.is_dir(), reason="shared/data/eurlex-energy is not there")
@pytest.mark.parametrize("kind", ["oj", "consolidated", "old"])
def test_real_acts_keep_their_articles_whatever_they_quote(kind: str) -> None:
    for path in sorted((ACTS / "html").glob(f"*.{kind}.*.gz"))[::3]:
        html = gzip.decompress(path.read_bytes()).decode()
        begins, text, title = next(one for one in BEGINNINGS if re.search(one[0], html))
        places = [found.start() for found in re.finditer(begins, html)]
        changed = html
        for part, lines in enumerate(reversed(QUOTATIONS), 1):  # from the end, so that the places stay
            kinds = [(title if line.startswith("> ") else text, line.removeprefix("> ")) for line in lines]
            quotation = "".join(f'<p class="{name}">{line}</p>' for name, line in kinds)
            place = places[-part * len(places) // 4]
            changed = changed[:place] + quotation + changed[place:]
        assert own_articles(clean(changed)) == own_articles(clean(html)), path.name
