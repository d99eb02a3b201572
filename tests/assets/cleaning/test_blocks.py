"""The structure of ordinary pages: what they hold is in the document, and what surrounds it is not."""

from __future__ import annotations

import time

import pytest

from rag_assay.assets.cleaning.article import clean_article
from rag_assay.assets.cleaning.blocks import paragraphs, read_blocks, without_numbers
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.tree import parse_page

LONG = "The harbour office charges every ship that stays for more than one tide a fee by its length."
FEES = f"""<h1>Fees of the harbour</h1><p>{LONG}</p><h2>How to pay</h2>
<p>There are three ways to pay, and each of them is taken at the office on the pier:</p>
<ol><li>in cash at the window</li><li>by card</li><li>by a transfer<ul><li>within ten days</li></ul></li></ol>
<h2>Prices</h2><table><tr><th>Length</th><th>Fee</th></tr><tr><td>to 8 m</td><td>12 pounds</td></tr></table>
<h3>Words</h3><dl><dt>Tide</dt><dd>Half a day, by the table of the office.</dd></dl>
<pre>fee = length * 2
  if tide &gt; 1</pre>"""
MENU = "<a href='/a'>Town</a> <a href='/b'>Ferries</a> <a href='/c'>Markets</a> <a href='/d'>Contact us</a>"


def clean(html: str) -> DocumentDraft:
    return clean_article(html.encode(), "text/html", "")


def read(html: str) -> list[tuple[int | None, str]]:
    return list(paragraphs(read_blocks(parse_page(f"<body>{html}</body>").find("body"))))


@pytest.mark.parametrize(
    "page",
    [
        f"<body>{FEES}</body>",
        f"<body><div id=wrap><div><div>{FEES}</div></div></div></body>",
        f"<body><table><tr><td width=120>{MENU}</td><td>{FEES}</td></tr></table></body>",
        f"<body><nav>{MENU}</nav><main>{FEES}</main><footer>© 2024 The town</footer></body>",
        f"<body><div class=navbar>{MENU}</div><div role=main>{FEES}</div><div id=footer>{MENU}</div></body>",
        f"<body><ul class=breadcrumbs><li>{MENU}</ul><div class=content>{FEES}</div>"
        "<table><tr><td><a rel=prev href=x>Previous</a><td><a rel=next href=y>Next</a></table></body>",
        FEES,
    ],
    ids=["bare body", "divs", "layout table", "main", "roles", "strips", "fragment"],
)
def test_ordinary_pages_keep_their_structure(page: str) -> None:
    draft = clean(page)
    assert [(one["heading"], one["level"]) for one in draft.sections] == [
        ("Fees of the harbour", 1), ("How to pay", 2), ("Prices", 2), ("Words", 3),
    ]  # fmt: skip
    assert (
        "1. in cash at the window\n2. by card\n3. by a transfer\n  - within ten days\n\nPrices" in draft.text
    )
    assert "Length | Fee\nto 8 m | 12 pounds" in draft.text
    assert "Tide\n\n  Half a day, by the table of the office." in draft.text
    assert draft.text.endswith("fee = length * 2\n  if tide > 1")
    for word in ("Markets", "Contact us", "Previous", "Next", "©"):
        assert word not in draft.text
    for section in draft.sections:
        assert draft.text[section["start"] :].startswith(section["heading"])


def test_an_article_ends_where_its_text_does() -> None:
    teasers = "".join(
        f"<div class=card><a href=/{n}><img src={n}.jpg></a><a href=/{n}>Another story {n}</a></div>"
        for n in range(4)
    )
    head = '<meta property="og:type" content="article">'
    other = LONG.replace("ship", "boat")
    body = f"<article><h1>A fee</h1><p>{LONG}</p><h2>How to pay</h2><p>{other}</p></article>"
    draft = clean(f"<html><head>{head}</head><body>{body}{teasers}</body></html>")
    assert "How to pay" in [one["heading"] for one in draft.sections]
    assert "Another story" not in draft.text


def test_a_page_of_scripts_alone_is_no_document() -> None:
    with pytest.raises(UnusablePage, match="no main text"):
        clean("<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>")


def test_bold_lines_and_large_fonts_are_headings_where_a_page_has_no_others() -> None:
    html = f"<p><b>Fees</b></p><p>{LONG}</p><p><font size=+2>Prices</font></p><p>{LONG}</p>"
    assert [text for level, text in read(f"{html}<p><b>All bold.</b></p>") if level] == ["Fees", "Prices"]


def test_a_cell_that_spans_rows_stands_in_each() -> None:
    rows = (
        "<tr><th colspan=2>Length and width</th><th>Fee</th></tr>"
        "<tr><td rowspan=2>8 m</td><td>2 m</td><td>12</td></tr><tr><td>3 m</td><td>14</td></tr>"
    )
    assert read(f"<table>{rows}</table>") == [
        (None, "Length and width |  | Fee\n8 m | 2 m | 12\n8 m | 3 m | 14")
    ]


def test_formulas_are_tex_and_pictures_their_description() -> None:
    math = "<math><mfrac><mi>a</mi><msup><mi>b</mi><mn>2</mn></msup></mfrac></math>"
    own = '<math alttext="E=mc^2"><mi>E</mi></math>'
    html = f"<p>It is {math} and {own}, <img src=x alt='a chart of the tides'><img src=y alt='y.png'></p>"
    assert read(html) == [(None, r"It is $\frac{a}{b^{2}}$ and $E=mc^2$ , [a chart of the tides]")]


def test_anchors_beside_headings_and_hidden_parts_are_left_out() -> None:
    html = '<h2>Fees<a href="#fees">¶</a></h2><p>Twelve.<span style="display: none">thirteen</span></p>'
    assert read(html) == [(2, "Fees"), (None, "Twelve.")]


def test_a_heading_whose_id_is_a_word_of_navigation_stays() -> None:
    nav = f"<h2 id=nav>nav</h2><p>{LONG} Nav.</p>"
    rights = f"<h2 id=copyright>copyright</h2><p>{LONG} Copyright.</p>"
    draft = clean(f"<main><h1>Settings</h1><p>{LONG}</p>{nav}{rights}</main>")
    assert [one["heading"] for one in draft.sections] == ["Settings", "nav", "copyright"]


def test_the_title_above_the_text_and_a_heading_above_links_alone_stay() -> None:
    sections = "".join(f"<h3>Pier {pier}</h3><p>{LONG} Pier {pier}.</p>" for pier in "ABCDEFGH")
    links = "<p><a href=t>Tides</a>, <a href=f>Ferries</a></p>"
    draft = clean(  # the extractor passes over what is of class `banner`
        "<title>Moorings: The Harbour</title><body><div class=banner><h3>The Harbour</h3>Open</div>"
        "<div class=banner><table><tr><td><h2>Moorings</h2><p>All of them</p></td></tr></table></div>"
        f"<div>{sections}<h3>See also</h3>{links}</div><div>{MENU}</div></body>"
    )
    piers = [f"Pier {pier}" for pier in "ABCDEFGH"]
    assert [one["heading"] for one in draft.sections] == ["Moorings", *piers, "See also"]
    assert draft.text.endswith("See also\n\nTides, Ferries")


def test_links_below_the_text_under_a_heading_are_no_text() -> None:
    sections = "".join(f"<h3>Pier {pier}</h3><p>{LONG} Pier {pier}.</p>" for pier in "ABCDEFGH")
    menus = "".join(
        f"<h3>{head}</h3><p>{links}</p>"
        for head, links in (
            ("Follow us", "<a href=f>Facebook</a>"),
            ("Service", "<a href=c>Contact</a> | <a href=i>Imprint</a>"),
            ("Login", "<a href=s>Sign in</a>"),
        )
    )
    draft = clean(f"<title>Moorings</title><body><div><h1>Moorings</h1>{sections}{menus}</div></body>")
    assert draft.text.startswith("Moorings")
    for link in ("Facebook", "Contact", "Imprint", "Sign in"):
        assert link not in draft.text


def test_nested_tables_with_code_are_read_in_a_time_that_does_not_explode() -> None:
    def seconds(depth: int) -> float:
        root = parse_page("<table><tr><td>1</td><td><pre>x</pre>" * depth)
        begin = time.process_time()
        without_numbers(root)
        return time.process_time() - begin

    assert seconds(200) < 8 * seconds(100) + 0.5  # cubic: 8 and more


def test_a_line_of_numbers_beside_code_is_left_out() -> None:
    root = parse_page("<table><tr><td>1\n2</td><td><pre>one\ntwo</pre></td></tr></table>")
    without_numbers(root)
    assert "".join(root.itertext()) == "one\ntwo"


@pytest.mark.parametrize(
    ("shown", "day"),
    [
        ("<p>Posted 1 March 2015</p>", "2015-03-01"),
        ("<p>March 1, 2015 by Ada Kern</p>", "2015-03-01"),
        ("<p>Do 05.03.15 | 14:07 Uhr</p>", "2015-03-05"),
        ("<p>Last updated 1 March 2015</p>", None),
        ("<pre>Date: 2015-03-01</pre>", None),
        ("<p>© 2015-03-01 The town</p>", None),
        ("", None),
    ],
)
def test_a_date_is_one_that_the_page_shows(shown: str, day: str | None) -> None:
    text = f"<p>{LONG} It was built on 4 May 1921.</p><p>{LONG} The law of 2 May 1931 holds.</p>"
    draft = clean(f"<body><h1>Fees</h1>{shown}{text}<pre>2001-02-03</pre></body>")
    assert (draft.published_at, draft.metadata["date_source"]) == (day, "text" if day else "none")


def test_a_part_of_the_page_that_is_called_a_line_is_no_listing() -> None:
    page = parse_page("<div><div class=line><h2>Fees</h2><p>Twelve pounds.</p></div></div>")
    assert [(block.kind, block.text) for block in read_blocks(page)] == [
        ("heading", "Fees"),
        ("text", "Twelve pounds."),
    ]
    code = parse_page(
        "<div><div class=line><a name=l1></a><span>int quay;</span></div><div class=ttc>q</div></div>"
    )
    assert [(block.kind, block.text) for block in read_blocks(code)] == [("code", "int quay;")]
