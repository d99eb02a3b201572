"""The page Documents in Chromium: what documents keep, one beside its page, and hostile pages as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from rag_assay.assets.cleaning.fidelity import KINDS as COUNTED
from rag_assay.assets.documents import Documents
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.commands.ui import is_known
from rag_assay.orchestration.corpora.document_list import (
    ListedDocument,
    document_rows,
    open_document,
    totals,
    worst_first,
)
from rag_assay.orchestration.corpora.records import Corpora, NamedCorpus
from rag_assay.orchestration.web.page_context import UiOptions
from rag_assay.orchestration.web.page_process import Server
from rag_assay.orchestration.web.pages.documents import KINDS
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.pages import manifest_digest, read_manifest, write_body, write_manifest
from rag_assay.warehouse.parquet import frame, read_parquet, write_parquet
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS, DROPPED, PAGES
from tests.assets.cleaning.pdf_writer import Sheet, pdf
from tests.fakes.browser import Tab, axe_violations, tab
from tests.fakes.tiny import write_study
from tests.orchestration.web.conftest import site_of
from tests.orchestration.web.test_languages import differing
from tests.orchestration.web.test_result_pages import MADE, WAYS, WRITTEN, query_of

TEXT = "The harbour office opens at eight in the morning, every day of the week but Sunday. " * 3
LOSES = f"""<html lang=en><head><title>Fees</title></head><body><article class="h-entry post">
<h1>Fees</h1><p>{TEXT}</p><h2>Berths</h2><p>{TEXT}</p>
<ul><li>A berth costs twelve pounds a day.</li></ul>
<p>{TEXT} <img src=a.png alt="A map of all the quays"></p></article>
<nav><ul><li>Home page of the office</li></ul></nav></body></html>"""
HOSTILE = f"""<html lang=en><head><title>"><img src=x onerror="window.hit=1"></title></head><body>
<h1>Hostile</h1><script>window.hit=1</script><h2>&lt;img src=x onerror=window.hit=1&gt;</h2><p>{TEXT}</p>
<p>&lt;script&gt;window.hit=1&lt;/script&gt; <a href="javascript:window.hit=1">{TEXT}</a> \u202e gnp.exe</p>
<ul><li>&lt;svg onload=window.hit=1&gt; is a list item</li></ul><iframe src="https://evil.example/"></iframe></body></html>"""
PLAIN = f"The rules of the harbour\n\n{TEXT}"


def leaflet() -> bytes:
    sheet = Sheet()
    sheet.flow(72, 720, TEXT, 80)
    return pdf(sheet, title="The leaflet")


PAGES_OF: Mapping[str, tuple[str, bytes]] = {
    "https://x.example/fees": ("text/html", LOSES.encode()),
    "https://x.example/hostile?<b>": ("text/html", HOSTILE.encode()),
    "https://x.example/short": ("text/html", b"<html><body>No.</body></html>"),
    "rules.txt": ("text/plain", PLAIN.encode()),
    "map.pdf": ("application/pdf", leaflet()),
}


def built(folder: Path, pages: Mapping[str, tuple[str, bytes]]) -> tuple[Path, Home]:
    """Return the tiny study, of whose stages the documents of these pages alone are built, and its home."""
    path, home = write_study(folder), Home(folder / "var")
    work = BuildContext(home)
    build = Grid([read_study(path)]).build
    rows = [
        {
            "url": url,
            "content_type": kind,
            "sha256": write_body(home, body),
            "fetched_at": datetime(2026, 3, 1, tzinfo=UTC),
        }
        for url, (kind, body) in pages.items()
    ]
    write_manifest(home, "docs", frame(rows, PAGES))
    version = manifest_digest(read_manifest(home, "docs"))
    work.store.commit(Artifact("pages", "docs", "pages", version))
    assert build_key(Documents(build), "docs", work).ok
    return path, home


@dataclass
class Shown:
    """The documents, worst first, and the app that shows them."""

    rows: list[ListedDocument]
    home: Home
    address: str

    def url(self, query: str = "", **of: str) -> str:
        return f"{self.address}documents?" + urlencode({"study": "tiny", "lang": "en", **of}) + query

    def id_of(self, part: str) -> str:
        return next(row.doc_id for row in self.rows if part in row.url)


@contextmanager
def served(path: Path, home: Home) -> Iterator[Shown]:
    site = site_of(home, UiOptions(study="tiny", reference=str(path)))
    with Server(site) as server:
        server.wait_until_ready()
        yield Shown(worst_first(document_rows(str(path), home)), home, site.url)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with served(*built(tmp_path_factory.mktemp("documents"), PAGES_OF)) as found:
        yield found


@pytest.fixture
def opened(browser: Any) -> Iterator[Tab]:
    with tab(browser) as found:
        yield found
        assert found.errors == []


ROWS = "#listed tbody tr"
SIDES = ".as-sections[data-layout=sides][data-drawn] section"


def test_each_kind_that_documents_count_has_a_name_on_the_page() -> None:
    assert set(KINDS) == set(COUNTED)


def test_the_list_is_that_of_the_command_worst_first(opened: Tab, shown: Shown) -> None:
    opened.page.goto(shown.url())
    opened.page.wait_for_selector(ROWS)
    listed = opened.page.locator(f"{ROWS} small").all_inner_texts()
    assert listed == [row.url for row in shown.rows]
    assert shown.rows[0].reason in opened.text(ROWS)
    kinds = opened.page.locator("#kept tbody tr").all_inner_texts()
    counted = {kind: n for kind, *n in (one.split("\t") for one in kinds)}
    assert {kind: [int(one) for one in n[:2]] for kind, n in counted.items()} == {
        title: totals(shown.rows)[kind] for kind, (title, _) in KINDS.items() if kind in totals(shown.rows)
    }
    assert counted["described images"] == ["1", "0", "1", "1"]


def test_a_filter_is_in_the_address_and_leads_to_a_document_and_back(opened: Tab, shown: Shown) -> None:
    opened.page.goto(shown.url())
    opened.page.locator("#kept tbody tr", has_text="described images").locator("a").click()
    opened.page.wait_for_function("() => location.search.includes('lost=images')")
    opened.page.wait_for_selector("#listed .where:has-text('1–1')")
    opened.page.locator(f"{ROWS} a").click()
    opened.page.wait_for_selector(SIDES)
    assert query_of(opened)["document"] == [shown.id_of("/fees")]
    lost = opened.page.locator(".blocks .lost")
    assert lost.all_inner_texts() == ["image · lost\nA map of all the quays"]
    assert "left out" in opened.page.locator(".blocks li", has_text="Home page of the office").inner_text()
    document = open_document(
        next(one for one in shown.rows if one.doc_id == shown.id_of("/fees")), shown.home
    )
    assert opened.text(".clean").split() == document.text.split()
    opened.page.get_by_text("Lost blocks").click()
    opened.page.wait_for_function("() => location.search.includes('side=only_lost')")
    opened.page.locator("#facts a", has_text="All documents").click()
    opened.page.wait_for_selector("#listed .where:has-text('1–1')")
    assert "document" not in query_of(opened)


@pytest.mark.parametrize(
    ("of", "urls"),
    [
        ({"lost": "document"}, ["https://x.example/short"]),
        ({"guessed": "language"}, ["map.pdf", "rules.txt"]),
        ({"search": "FEES", "lost": "some"}, ["https://x.example/fees"]),
        ({"lost": "scans"}, []),
        ({"date": "none", "guessed": "language"}, ["map.pdf", "rules.txt"]),
    ],
)
def test_filters(of: dict[str, str], urls: list[str], opened: Tab, shown: Shown) -> None:
    opened.page.goto(shown.url(**of))
    opened.page.wait_for_selector("#listed")
    assert sorted(opened.page.locator(f"{ROWS} small").all_inner_texts()) == urls


def test_other_files_are_shown_as_their_text(opened: Tab, shown: Shown) -> None:
    for url, note in (("map.pdf", "before it is cleaned"), ("rules.txt", "as it is stored")):
        opened.page.goto(shown.url(document=shown.id_of(url)))
        opened.page.wait_for_selector(f"p:has-text('{note}')")
        assert "The harbour office opens at eight" in opened.text(".stored")
    opened.page.goto(shown.url(document="<img src=x onerror=window.hit=1>"))
    opened.page.wait_for_selector(".stAlert")


def test_a_corpus_is_shown_by_its_name(browser: Any, shown: Shown) -> None:
    corpus = NamedCorpus(name="harbour", target=str(shown.home.root.parent / "tiny.yaml"), kind="study")
    Corpora(shown.home).add(corpus)
    assert is_known("harbour", shown.home)
    site = site_of(shown.home, UiOptions(study="harbour", reference="harbour"))
    with Server(site) as server, tab(browser) as opened:
        server.wait_until_ready()
        opened.page.goto(f"{site.url}documents")
        opened.page.wait_for_selector(ROWS)
        assert opened.page.locator(ROWS).count() == len(shown.rows)
        assert opened.errors == []


def test_hostile_pages_are_text(opened: Tab, shown: Shown) -> None:
    document = shown.id_of("hostile")
    for of, there in (
        ({}, ROWS),
        ({"document": document}, ".blocks li"),
        ({"document": document, "side": "markup"}, ".stored"),
        ({"lost": "<img src=x onerror=window.hit=1>"}, ROWS),
    ):
        opened.page.goto(shown.url(**of))
        opened.page.wait_for_selector(there)
        opened.page.wait_for_timeout(300)
        assert opened.page.evaluate(MADE) == [], of
        shadow = opened.page.locator(".as-sections")
        assert shadow.locator("img, iframe, script").count() == 0
    opened.page.goto(shown.url(document=document, side="markup"))
    opened.page.wait_for_selector(".stored")
    assert "<script>window.hit=1</script>" in opened.text(".stored")
    assert "\u202e" not in opened.text(".stored")


def test_the_page_is_accessible_and_in_german(opened: Tab, shown: Shown) -> None:
    page, english = opened.page, set(differing()) - {"Open"}
    for of, there in (({}, ROWS), ({"document": shown.id_of("/fees")}, SIDES)):
        page.set_viewport_size({"width": 1280, "height": 860})
        page.goto(shown.url(**{**of, "lang": "de"}))
        page.wait_for_selector(there)
        for (width, scheme), rules in WAYS.items():
            page.set_viewport_size({"width": width, "height": 860})
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(400)
            assert axe_violations(page, rules) == [], (of, width, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (of, scheme)
        written = set(page.evaluate(WRITTEN))
        assert written & english == set(), of
    with_losses = page.locator(".blocks .lost")
    assert with_losses.all_inner_texts() == ["Bild · verloren\nA map of all the quays"]


def test_of_many_documents_only_a_page_is_sent(browser: Any, tmp_path: Path) -> None:
    path, home = built(tmp_path, {"rules.txt": ("text/plain", PLAIN.encode())})
    store = ArtifactStore(home)
    artifact = store.current("documents", "docs")
    assert artifact is not None
    row = read_parquet(store.files_of(artifact) / "documents.parquet").row(0, named=True)
    lost = json.dumps({"fidelity": {"headings": [9, 1]}, "date_source": "none"})
    many = [
        {
            **row,
            "doc_id": f"d{at}",
            "url": f"https://x.example/{at:05}",
            "metadata": lost if at == 777 else "{}",
        }
        for at in range(1000)
    ]
    folder = store.folder("documents", "many")
    write_parquet(frame(many, DOCUMENTS), folder / "documents.parquet")
    write_parquet(frame([], DROPPED), folder / "dropped.parquet")
    store.commit(Artifact("documents", "docs", "many", "many"))
    with served(path, home) as shown, tab(browser) as opened:
        opened.page.goto(shown.url())
        opened.page.wait_for_selector(ROWS)
        assert opened.page.locator(ROWS).count() == 50
        assert "00777" in opened.text(ROWS)
        assert len(set(re.findall(rb"document=d\d+", b"".join(opened.received)))) == 50
        opened.page.goto(shown.url(page="20"))
        opened.page.wait_for_selector("#listed .where:has-text('951–1')")
        opened.page.goto(shown.url(document="d777"))
        opened.page.wait_for_selector(".clean")
        assert opened.errors == []
