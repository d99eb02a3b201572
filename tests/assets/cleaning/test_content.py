"""Pages whose source names the element of their text."""

from __future__ import annotations

import pytest

from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.page_cleaner import clean_content

PAGE = """<html lang=en><head><title>Moorings in the old harbour | Town</title>
<meta property="article:published_time" content="2024-05-03"></head><body>
<nav>Home About</nav><div id=side><p>Other pages of the town</p></div>
<div class=text>
  <h2>Moorings</h2><p>A mooring costs <b>twelve</b>
     pounds a night.</p>
  <h4>In winter</h4><ul><li>eight pounds</li><li><p>ice is not cleared</p></li></ul>
  <table><tr><th>Boat</th><th>Price</th></tr><tr><td>Yacht</td><td>12.00</td></tr></table>
  <script>var x = 1;</script><!-- no text -->
  <h2>Pilots</h2>Loose words<br>on two lines<p></p>
  <pre>
  a  b
c</pre>
</div>
<div class=text><p>A second element.</p><div class=text>inside it</div></div>
<footer>Town Hall</footer></body></html>"""


def clean(selector: str, html: str = PAGE) -> DocumentDraft:
    return clean_content(html.encode(), "text/html", "https://town.example/a", selector)


def test_the_text_is_that_of_the_elements_and_their_headings_are_sections() -> None:
    draft = clean("div.text")
    assert draft.text.split("\n\n") == [
        "Moorings", "A mooring costs twelve pounds a night.", "In winter",
        "- eight pounds\n- ice is not cleared", "Boat | Price\nYacht | 12.00", "Pilots",
        "Loose words\non two lines", "  a  b\nc", "A second element.", "inside it",
    ]  # fmt: skip
    found = {one["heading"]: (one["level"], draft.text[one["start"] : one["end"]]) for one in draft.sections}
    assert list(found) == ["Moorings", "In winter", "Pilots"]
    assert [level for level, _ in found.values()] == [1, 2, 1], "levels close up"
    assert found["Moorings"][1].startswith("Moorings\n\nA mooring")
    assert found["Moorings"][1].endswith("Yacht | 12.00"), "the lower section lies in it"
    assert found["In winter"][1].startswith("In winter\n\n- eight pounds")


def test_the_facts_are_those_of_the_page() -> None:
    draft = clean("div.text")
    assert (draft.title, draft.language, draft.published_at) == (
        "Moorings in the old harbour", "en", "2024-05-03",
    )  # fmt: skip
    assert draft.metadata["date_source"] == "meta"


def test_a_selector_may_name_strings() -> None:
    assert clean("#side p::text").text == "Other pages of the town"


def test_a_page_without_the_element_is_refused_with_the_selector() -> None:
    with pytest.raises(UnusablePage, match=r"`content` names nothing in this page: 'div\.missing'"):
        clean("div.missing")
    with pytest.raises(UnusablePage, match="what `content` names in this page has no text: 'p:empty'"):
        clean("p:empty")


def test_a_table_that_lays_out_the_page_is_read_cell_by_cell() -> None:
    html = "<main><table><tr><td><h2>One</h2><p>First.</p></td><td><h2>Two</h2></td></tr></table></main>"
    draft = clean("main", html)
    assert draft.text == "One\n\nFirst.\n\nTwo"
    assert [one["heading"] for one in draft.sections] == ["One", "Two"]


def test_text_of_a_wrong_charset_is_repaired_before_offsets_are_counted() -> None:
    draft = clean("main", "<main><h1>MÃ¼nchen</h1><p>Der FuÃŸball-Club verlor.</p></main>")
    assert draft.text == "München\n\nDer Fußball-Club verlor."
    (section,) = draft.sections
    assert (section["heading"], section["end"]) == ("München", len(draft.text))


def test_elements_nested_without_end_are_read_or_refused() -> None:
    assert clean("body", f"<body>{'<div>' * 1000}deep words</body>").text == "deep words"
    with pytest.raises(UnusablePage, match="has no text"):  # the parser itself gives up at such a depth
        clean("body", f"<body>{'<div>' * 20_000}deep words</body>")
