"""What a page holds is counted beside what its document keeps, and nothing beside the text is."""

from __future__ import annotations

from typing import Any

import pytest

from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.blocks import read_blocks
from rag_assay.assets.cleaning.fidelity import PageComparison, has_lost_headings
from rag_assay.assets.cleaning.page_cleaner import clean_html
from rag_assay.assets.cleaning.tree import parse_page

PARAGRAPH = "The harbour office opens at eight in the morning, every day of the week but Sunday and feasts."
PAGE = f"""<html><body>
<nav><h2>Menu</h2><ul><li>Home page of the office</li></ul></nav>
<h1>Harbour</h1><p>{PARAGRAPH}</p>
<h2>Fees</h2><p>{PARAGRAPH}</p><ul><li>A berth costs twelve pounds.</li><li>A buoy costs five.</li></ul>
<h2>Hours</h2><table><tr><th>Day</th><th>Opens</th></tr><tr><td>Monday</td><td>eight</td></tr></table>
<h2>Code</h2><pre>open(8)</pre><dl><dt>Quay</dt><dd>A wall beside water.</dd></dl>
<p>{PARAGRAPH} <img src=a.png alt="A map of the quays"> <math><mi>x</mi></math></p>
<footer><h2>Contact</h2><ul><li>Write to us at any time</li></ul></footer>
</body></html>"""
HELD = {"headings": 3, "items": 2, "definitions": 2, "rows": 2, "code": 1, "images": 1, "formulas": 1}


@pytest.mark.parametrize("content", [None, "body"])
def test_all_of_a_plain_page_is_kept_and_counted(content: str | None) -> None:
    if content is None:
        draft = clean_article(PAGE.encode(), "text/html", "https://x.example/")
        assert draft.metadata["fidelity"] == {kind: [count, count] for kind, count in HELD.items()}
    else:
        held = clean_html(PAGE.encode(), "text/html", "https://x.example/", content).metadata["fidelity"]
        assert held == {kind: [count, count] for kind, count in HELD.items()}


@pytest.mark.parametrize(
    ("text", "sections", "kept"),
    [
        ("", [], dict.fromkeys(HELD, 0)),
        (PARAGRAPH, [{"heading": "Fees"}], dict.fromkeys(HELD, 0) | {"headings": 1}),
        ("- A buoy costs five.\nDay | Opens", [], dict.fromkeys(HELD, 0) | {"items": 1, "rows": 1}),
        ("[A map of the quays] $x$", [], dict.fromkeys(HELD, 0) | {"images": 1, "formulas": 1}),
    ],
)
def test_what_is_lost_is_counted(text: str, sections: list[dict[str, Any]], kept: dict[str, int]) -> None:
    root = parse_page(PAGE)
    found = PageComparison(root, read_blocks(root), text, sections).counts()
    assert found == {kind: [count, kept[kind]] for kind, count in HELD.items()}
    assert has_lost_headings(found) == (kept["headings"] < 2)


@pytest.mark.parametrize(
    "opening",
    [
        *('<div class="withsidebar">', '<div id="protocol">', '<div class="astoc">'),
        *(
            '<body class="has-sidebar">',
            '<div class="page with-sidebar"><main>',
            '<div class="nav-open"><div role=main>',
        ),
    ],
)
def test_what_only_sounds_like_navigation_is_counted(opening: str) -> None:
    root = parse_page(
        f"<html>{opening}<h1>Harbour</h1><h2>Fees</h2><ul><li>A berth costs twelve pounds.</li></ul>"
    )
    assert PageComparison(root, read_blocks(root), "", []).counts() == {"headings": [1, 0], "items": [1, 0]}


@pytest.mark.parametrize(
    "named", ["class=sidebar", 'class="site-nav"', 'class="footer dark"', "id=toc", "role=search"]
)
def test_what_is_beside_the_text_is_not_counted(named: str) -> None:
    root = parse_page(
        f"<body><main><h1>Harbour</h1></main><div {named}><h2>Menu</h2><ul><li>Home</ul></div></body>"
    )
    assert PageComparison(root, read_blocks(root), "", []).counts() == {}


def test_menus_and_popups_of_mdbook_are_no_text() -> None:
    chrome = (
        "<div id=help-popup><h2>Keyboard shortcuts</h2></div><div class='menu-bar sticky'><h1>The book</h1>"
        "<ul role=menu><li>Light theme<li>Dark theme</ul></div>"
    )
    body = "".join(
        f"<h2>Part {number}</h2><p>{'Twelve pounds a tide for each ship. ' * 9}</p>" for number in range(3)
    )
    page = f"<body><div>{chrome}<main><h1>Fees</h1>{body}</main></div></body>"
    fidelity = clean_article(page.encode(), "text/html", "").metadata["fidelity"]
    assert fidelity == {"headings": [3, 3]}
