import json

import polars as pl
import pytest

from rag_assay.assets.cleaning.batches import Cleaning, Known
from rag_assay.assets.cleaning.links import address_of
from rag_assay.assets.documents import Documents
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import PAGES
from rag_assay.warehouse.source import Source
from tests.assets.cleaning.test_page_cleaner import STORY, article, page

URL = "https://harbour.example/guide/moorings.html"
LONG = f"<p>{STORY}</p>"
BODY = f"""<main><h1>Moorings</h1>{LONG}
<h2><a href="/fees">Fees</a></h2>
<p>Here are fees. The list of all prices is <a href="../prices.html">here</a>, and the
<a href="https://pilots.example/a_(b)?x=1&amp;y=2"><b>pilot</b> office</a> has others.</p>
<h2>Services</h2><ul><li><a href="water">Water</a> at every berth</li><li>Waste: <a href="#waste">below</a>
</li></ul><table><tr><th>Berth</th><th>Map</th></tr><tr><td>North</td>
<td>see <a href="north.html">map</a></td></tr></table>
<pre>visit <a href="/code">here</a> twice</pre>{LONG}</main>
<footer><a href="/imprint">Imprint</a></footer>"""


def document(body: str, *, links: bool = True, url: str = URL, head: str = "", **fields: object) -> dict:
    home = Home(document.folder)
    cleaning = Cleaning("source", home, None, home.root / "parts", links=links)
    manifest = frame([page(home, url, article(body, head), **fields)], PAGES)
    rows = pl.concat([batch.documents for batch in cleaning.run(manifest, Known(), lambda *_: None)])
    return rows.row(0, named=True)


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    document.folder = tmp_path


SHOWN = (
    "- [Water](https://harbour.example/guide/water) at every berth",
    "- Waste: below",
    "all prices is [here](https://harbour.example/prices.html), and",
    "the [pilot office](https://pilots.example/a_%28b%29?x=1&y=2) has",
    "North | see [map](https://harbour.example/guide/north.html)",
    "visit here twice",
    "Here are fees.",
)


@pytest.mark.parametrize("is_article", [False, True])
@pytest.mark.parametrize("fields", [{}, {"content": "main"}])
def test_links_stand_where_they_are_on_the_page(is_article, fields):
    head = '<meta property="og:type" content="article">' if is_article else ""
    found, plain = (document(BODY, head=head, links=links, **fields) for links in (True, False))
    text = found["text"]
    loses_items = is_article and not fields  # as trafilatura does
    assert [line for line in SHOWN if line not in text] == [line for line in SHOWN[:2] if loses_items]
    assert not any(one in text for one in ("/imprint", "/fees)", "/code"))
    assert [text[one["start"] : one["end"]].split("\n")[0] for one in found["sections"]] == [
        one["heading"] for one in found["sections"]
    ]
    assert [one["heading"] for one in found["sections"]] == [one["heading"] for one in plain["sections"]]
    for one, before in zip(found["sections"], plain["sections"], strict=True):
        assert text[one["end"] - 9 : one["end"]] == plain["text"][before["end"] - 9 : before["end"]]
    assert json.loads(found["metadata"])["fidelity"]["links"] == [4, 4 - loses_items]
    assert "](" not in plain["text"]
    assert "links" not in json.loads(plain["metadata"])["fidelity"]
    assert found["version"] != plain["version"]
    assert found["page_key"] != plain["page_key"]


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)", "JAVASCRIPT:alert(1)", " java\tscript:alert(1)", "java\x01script:x",
        "data:text/html,x",
        "vbscript:x", "file:///etc/passwd", "blob:x", "https://user:secret@a.example/",
        "https://a.example/" + "x" * 3000,
        "http://[broken/", "\x00javascript:x",
    ],
)  # fmt: skip
def test_unsafe_targets_are_dropped_and_counted(target):
    assert address_of(target, URL) is None
    shown = target.replace("\x00", "").replace("\x01", "&#1;").replace("\t", "&#9;")
    found = document(
        f'<main>{LONG}<p>A <a href="{shown}">bad link</a>, a <a href="/b">good one</a>.</p></main>'
    )
    metadata = json.loads(found["metadata"])
    assert "A bad link, a [good one](https://harbour.example/b)." in found["text"]
    assert metadata["fidelity"]["links"] == [2, 1]
    assert metadata["unsafe_links"] == 1


def test_the_base_of_a_page_counts_unless_it_is_unsafe():
    body = f'<main>{LONG}<p>An <a href="x">other page</a>.</p></main>'
    for base, shown in (
        ("/docs/", "https://harbour.example/docs/x"),
        ("javascript:", "https://harbour.example/guide/x"),
    ):
        assert f"[other page]({shown})" in document(body, head=f'<base href="{base}">')["text"]
    assert "[other page](x)" in document(body, url="moorings.html")["text"]


def test_an_address_cannot_end_its_markdown():
    found = document(f'<main>{LONG}<p>A <a href="/a) [x](javascript:b">link</a>.</p></main>')
    assert "[link](https://harbour.example/a%29%20%5Bx%5D%28javascript:b)" in found["text"]


def test_keeping_links_changes_the_identity_of_documents_and_its_default_does_not():
    sites = {
        name: Source.model_validate({"reader": "folder", "path": ".", **more})
        for name, more in (("a", {}), ("b", {"links": "drop"}), ("c", {"links": "keep"}))
    }
    assert [one.model_dump(exclude_defaults=False).get("links") for one in sites.values()] == [
        None,
        None,
        "keep",
    ]
    digests = [Documents(Build(sources={"s": one})).recipes("s") for one in sites.values()]
    assert digests[0] == digests[1] != digests[2]


def test_links_of_a_page_whose_encoding_is_repaired_are_kept():
    found = document(f'<main>{LONG}<p>SchÃ¶ne <a href="/faehre">FÃ¤hre</a> im Hafen.</p></main>')
    assert "Schöne [Fähre](https://harbour.example/faehre) im Hafen." in found["text"]
