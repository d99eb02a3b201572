"""The stage `documents`: what is cleaned again, what became of each document, and what a build changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.cleaning import article, batches, page_cleaner
from rag_assay.assets.cleaning.batches import Cleaning, Known
from rag_assay.assets.documents import Documents
from rag_assay.assets.engine.builder import build_key
from rag_assay.assets.engine.stage import BuildContext, KeyOutcome
from rag_assay.assets.recipes.build_half import Build
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.pages import manifest_digest, read_manifest, write_body, write_manifest
from rag_assay.warehouse.parquet import frame, read_parquet, write_batches
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import DOCUMENTS, PAGES
from rag_assay.warehouse.source import Source
from tests.assets.cleaning.pdf_writer import Sheet, pdf
from tests.fakes.crawling import crawling
from tests.fakes.site import Reply, index, serving

STORY = "The harbour office opens at {} in the morning, every day of the week but Sunday."
MONDAY, TUESDAY, FRIDAY = (datetime(2024, 5, day, tzinfo=UTC) for day in (6, 7, 10))


class Town:
    """One source whose pages a test says, crawl by crawl, and its documents."""

    def __init__(self, home: Home, **source: Any) -> None:
        self.work = BuildContext(home)
        town = Source.model_validate({"reader": "folder", "path": ".", **source})
        self.stage = Documents(Build(sources={"town": town}))

    def crawl(self, texts: Mapping[str, str], at: datetime, kind: str = "text/plain") -> None:
        """Store these pages; those that were there before and are not named are gone."""
        home = self.work.home
        before = {row["url"]: row for row in read_manifest(home, "town", gone=True).iter_rows(named=True)}
        rows = {url: {"gone_at": at, **_without(row, "gone_at")} for url, row in before.items()}
        for url, text in texts.items():
            sha256 = write_body(home, text.encode())
            same = url in before and before[url]["sha256"] == sha256 and before[url]["gone_at"] is None
            fetched = before[url]["fetched_at"] if same else at
            rows[url] = {"url": url, "content_type": kind, "fetched_at": fetched, "sha256": sha256}
        write_manifest(home, "town", frame(list(rows.values()), PAGES))
        version = manifest_digest(read_manifest(home, "town"))
        self.work.store.commit(Artifact("pages", "town", "pages", version))

    def build(self) -> KeyOutcome:
        outcome = build_key(self.stage, "town", self.work)
        assert outcome.ok, outcome.error
        return outcome

    def meta(self) -> dict[str, Any]:
        artifact = self.build().artifact
        assert artifact is not None
        return artifact.meta

    def read(self, name: str) -> pl.DataFrame:
        artifact = self.build().artifact
        assert artifact is not None
        return read_parquet(self.work.store.folder("documents", artifact.identity) / f"{name}.parquet")


def _without(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {column: value for column, value in row.items() if column != name}


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(Home(tmp_path), language="en")


@pytest.fixture
def cleaned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs of the pages that were cleaned, in their order."""
    urls: list[str] = []
    sound = page_cleaner.clean_page

    def counting(source: str, page: dict[str, Any], *settings: Any, **options: Any) -> page_cleaner.Cleaned:
        urls.append(page["url"])
        return sound(source, page, *settings, **options)

    monkeypatch.setattr(batches, "clean_page", counting)
    return urls


# ------------------------------------------------------------------------------------------- known pages

TEXTS = {f"u{number:02}": STORY.format(number) for number in range(20)} | {"short": "Two words."}


def test_one_changed_page_of_many_cleans_that_one(town: Town, cleaned: list[str], tmp_path: Path) -> None:
    town.crawl(TEXTS, MONDAY)
    first = town.meta()
    assert (first["documents"], first["dropped"], first["pages_cleaned"]) == (20, 1, 21)
    cleaned.clear()
    town.crawl({**TEXTS, "u07": STORY.format("noon")}, TUESDAY)
    second = town.meta()
    assert cleaned == ["u07"], "the drop is known too"
    assert (second["pages_cleaned"], second["pages_reused"]) == (1, 20)
    fresh = Town(Home(tmp_path / "fresh"), language="en")
    fresh.crawl({**TEXTS, "u07": STORY.format("noon")}, TUESDAY)
    for name in ("documents", "dropped"):
        assert town.read(name).equals(fresh.read(name)), "as if all had been cleaned at once"


def test_another_language_of_the_source_cleans_all_again(town: Town, cleaned: list[str]) -> None:
    town.crawl(TEXTS, MONDAY)
    town.build()
    cleaned.clear()
    other = Town(town.work.home, language="de")
    assert set(other.read("documents")["language"]) == {"de"}
    assert len(cleaned) == 21


def test_other_code_cleans_all_again(town: Town, cleaned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    town.crawl(TEXTS, MONDAY)
    town.build()
    cleaned.clear()
    monkeypatch.setattr(page_cleaner, "CODE_VERSION", "next")
    monkeypatch.setattr(Documents, "code_version", "next")
    town.build()
    assert len(cleaned) == 21


def test_a_build_that_was_killed_goes_on_from_its_last_batch(
    town: Town, cleaned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH", 5)
    town.crawl(TEXTS, MONDAY)
    sound = Cleaning.run

    def dies(*given: Any) -> Any:
        for number, batch in enumerate(sound(*given)):
            if number == 3:
                raise KeyboardInterrupt
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(Cleaning, "run", dies)
        with pytest.raises(KeyboardInterrupt):
            town.build()
    before = set(cleaned)
    cleaned.clear()
    assert town.meta()["documents"] == 20
    assert len(before) == 20, "four batches of five"
    assert set(cleaned) == set(TEXTS) - before
    assert not list(town.work.home.stage("documents").glob("*/parts"))


def test_a_page_whose_bytes_were_damaged_is_looked_at_again(town: Town, cleaned: list[str]) -> None:
    town.crawl(TEXTS, MONDAY)
    manifest = read_manifest(town.work.home, "town")
    body = town.work.home.body(manifest.filter(pl.col("url") == "u00")["sha256"].item())
    whole = body.read_bytes()
    body.write_bytes(b"torn")
    torn = build_key(town.stage, "town", town.work)
    assert not torn.ok, "a document that may come back is missing"
    assert torn.error == "1 x the stored page is damaged (u00); the next run tries again"
    assert torn.artifact is not None
    assert torn.artifact.meta["dropped"] == 2
    body.write_bytes(whole)
    cleaned.clear()
    assert town.meta()["dropped"] == 1, "without another crawl, too"
    assert cleaned == ["u00"]
    body.write_bytes(b"torn")
    cleaned.clear()
    town.crawl({**TEXTS, "new": STORY.format("new")}, TUESDAY)
    assert town.meta()["dropped"] == 1
    assert len(cleaned) == 1, "the new page; what was made of the other one is known"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(24, "Too many open files"), "Too many open files"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (MemoryError(), "MemoryError"),
    ],
)
@pytest.mark.parametrize(("kind", "cleaner"), [("text/plain", "clean_text"), ("text/html", "clean_html")])
def test_what_the_system_was_short_of_once_is_tried_again(
    town: Town, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str, kind: str, cleaner: str
) -> None:
    page = "<html><body><article>" + "".join(f"<p>{STORY.format(n)}</p>" for n in range(9)) + "</article>"
    town.crawl({"a": page, "b": page.replace("harbour", "airport")}, MONDAY, kind)
    sound = getattr(page_cleaner, cleaner)

    def short_of_it(body: bytes, *rest: Any) -> Any:
        if b"airport" in body:
            raise error
        return sound(body, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(page_cleaner, cleaner, short_of_it)
        passing = build_key(town.stage, "town", town.work)
    assert passing.error == f"1 x cannot be read now: {words} (b); the next run tries again"
    assert town.meta()["dropped"] == 0
    assert set(town.read("documents")["url"]) == {"a", "b"}


def test_a_torn_file_of_the_last_build_is_not_used(town: Town) -> None:
    town.crawl(TEXTS, MONDAY)
    town.build()
    (path,) = town.work.home.stage("documents").rglob("documents.parquet")
    path.write_bytes(path.read_bytes()[:4] + b"\0" * (path.stat().st_size - 4))
    town.crawl({**TEXTS, "new": STORY.format("new")}, TUESDAY)
    assert town.meta()["documents"] == 21


def test_workers_give_what_one_process_gives(tmp_path: Path) -> None:
    town = Town(Home(tmp_path))
    pages = {f"u{n}": f"<article><h1>Harbour {n}</h1><p>{STORY.format(n)}</p></article>" for n in range(70)}
    town.crawl(pages, MONDAY, "text/html")
    manifest = read_manifest(town.work.home, "town")

    def made(workers: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        parts = tmp_path / f"parts{workers}"
        found = list(Cleaning("town", town.work.home, "en", parts, workers).run(manifest, Known(), _quiet))
        return pl.concat([b.documents for b in found]), pl.concat([b.dropped for b in found])

    here, there = made(0), made(2)
    assert len(here[0]) == 70
    assert here[0].equals(there[0])
    assert here[1].equals(there[1])


def _quiet(_label: str, _done: int, _of: int) -> None:
    pass


def test_batches_are_row_groups_of_one_file(tmp_path: Path) -> None:
    rows = [frame([{"doc_id": str(n), "sections": [], "authors": ["Ada"]}], DOCUMENTS) for n in range(3)]
    write_batches(iter(rows), DOCUMENTS, tmp_path / "documents.parquet")
    assert read_parquet(tmp_path / "documents.parquet").equals(pl.concat(rows))
    import pyarrow.parquet

    assert pyarrow.parquet.ParquetFile(tmp_path / "documents.parquet").num_row_groups == 3
    write_batches(iter(()), DOCUMENTS, tmp_path / "none.parquet")
    assert read_parquet(tmp_path / "none.parquet").schema == pl.Schema(DOCUMENTS)


# ------------------------------------------------------------------------------------------- from a crawl


def test_a_crawled_site_whose_source_names_the_element_of_its_text(tmp_path: Path) -> None:
    page = (
        "<html lang=en><head><title>Town</title></head><body><p>{0} {0}</p>"
        "<div class=text><h2>{1}</h2><p>{0}</p></div></body></html>"
    )
    with serving() as site:
        site["/"] = Reply(index("/a", "/b", "/c"))
        for path, heading in (("/a", "Moorings"), ("/b", "Pilots")):
            site[path] = Reply(page.format(STORY.format("seven"), heading))
        site["/c"] = Reply("<html><body><p>No such element.</p></body></html>")
        spec: dict[str, Any] = {"spider": "site", "start": [site.url("/")], "content": "div.text"}
        crawled = crawling(tmp_path, "town", **spec)
        crawled.run()
        town = Town(crawled.home, reader=None, path=None, **spec)
    version = manifest_digest(read_manifest(crawled.home, "town"))
    town.work.store.commit(Artifact("pages", "town", "pages", version))
    found = town.read("documents").sort("url").select("text", "sections").rows()
    assert [text for text, _ in found] == [
        f"{heading}\n\n{STORY.format('seven')}" for heading in ("Moorings", "Pilots")
    ]
    assert [[one["heading"] for one in sections] for _, sections in found] == [["Moorings"], ["Pilots"]]


# ------------------------------------------------------------------------------------------- versions


def history(town: Town, url: str) -> list[tuple[Any, ...]]:
    versions = town.read("versions").filter(pl.col("url") == url)
    return versions.select("valid_from", "valid_to", "gone").rows()


def test_a_changed_page_makes_a_new_version_of_the_same_document(town: Town) -> None:
    town.crawl({"a": STORY.format("seven"), "b": STORY.format("nine")}, MONDAY)
    town.build()
    assert history(town, "a") == [(MONDAY, None, False)]
    town.crawl({"a": STORY.format("eight"), "b": STORY.format("nine")}, TUESDAY)
    assert history(town, "a") == [(MONDAY, TUESDAY, False), (TUESDAY, None, False)]
    assert history(town, "b") == [(MONDAY, None, False)]
    versions = town.read("versions").filter(pl.col("url") == "a")
    assert versions["doc_id"].n_unique() == 1
    assert versions["version"].n_unique() == versions["text_sha256"].n_unique() == 2
    assert versions["version"].to_list()[-1] in town.read("documents")["version"]


def test_a_page_that_goes_and_comes_back(town: Town) -> None:
    texts = {"a": STORY.format("seven"), "b": STORY.format("nine")}
    town.crawl(texts, MONDAY)
    town.build()
    town.crawl({"b": texts["b"]}, TUESDAY)
    assert town.meta()["changes"]["gone"] == 1
    assert history(town, "a") == [(MONDAY, TUESDAY, True)]
    town.crawl({**texts, "b": STORY.format("ten")}, FRIDAY)
    assert town.meta()["changes"]["added"] == 1
    assert history(town, "a") == [(MONDAY, TUESDAY, True), (FRIDAY, None, False)]


def test_a_page_that_gives_no_document_any_longer_ends_its_version(town: Town) -> None:
    town.crawl({"a": STORY.format("seven"), "b": STORY.format("nine")}, MONDAY)
    town.build()
    town.crawl({"a": "Closed.", "b": STORY.format("nine")}, TUESDAY)
    assert history(town, "a") == [(MONDAY, TUESDAY, True)]


def test_a_crawl_that_finds_the_same_changes_nothing_after_it(town: Town) -> None:
    town.crawl(TEXTS, MONDAY)
    first = town.build().artifact
    manifest = read_manifest(town.work.home, "town").with_columns(
        fetched_at=pl.lit(FRIDAY, PAGES["fetched_at"])
    )
    write_manifest(town.work.home, "town", manifest)
    town.work.store.commit(Artifact("pages", "town", "pages", manifest_digest(manifest)))
    again = town.build()
    assert not again.computed
    assert again.artifact == first


def test_times_do_not_enter_the_data_version(tmp_path: Path) -> None:
    def version(folder: str, at: datetime) -> str:
        town = Town(Home(tmp_path / folder))
        town.crawl(TEXTS, at)
        artifact = town.build().artifact
        assert artifact is not None
        return artifact.data_version

    assert version("one", MONDAY) == version("other", FRIDAY)


def test_a_page_that_changes_back_is_a_version_of_its_own(town: Town, cleaned: list[str]) -> None:
    seven, eight = ({"a": STORY.format(hour), "b": STORY.format("nine")} for hour in ("seven", "eight"))
    town.crawl(seven, MONDAY)
    first = town.build().artifact
    town.crawl(eight, TUESDAY)
    town.build()
    cleaned.clear()
    town.crawl(seven, FRIDAY)
    again = town.build()
    assert cleaned == ["a"]
    assert history(town, "a") == [
        (MONDAY, TUESDAY, False),
        (TUESDAY, FRIDAY, False),
        (FRIDAY, None, False),
    ]
    assert history(town, "b") == [(MONDAY, None, False)]
    assert first is not None
    assert again.artifact is not None
    assert again.artifact.data_version == first.data_version, "nothing after it need be built again"
    assert again.artifact.meta["changes"]["changed"] == 1
    assert not town.build().computed
    town.crawl({"b": seven["b"]}, datetime(2024, 5, 13, tzinfo=UTC))
    assert history(town, "a")[-1] == (FRIDAY, datetime(2024, 5, 13, tzinfo=UTC), True)


def test_a_page_that_goes_and_comes_back_as_it_was(town: Town) -> None:
    both = {"a": STORY.format("seven"), "b": STORY.format("nine")}
    for texts, at in ((both, MONDAY), ({"b": both["b"]}, TUESDAY), (both, FRIDAY)):
        town.crawl(texts, at)
        town.build()
    assert history(town, "a") == [(MONDAY, TUESDAY, True), (FRIDAY, None, False)]


# ------------------------------------------------------------------------------------------- changes


def test_what_changed_is_told_by_section() -> None:
    from rag_assay.assets.cleaning.versions import section_changes

    def document(**parts: str) -> dict[str, Any]:
        text, sections = "", []
        for heading, part in parts.items():
            sections.append({"heading": heading, "start": len(text), "end": len(text) + len(part)})
            text += part
        return {"text": text, "sections": sections}

    told = section_changes(document(A="one", B="two", C="three"), document(A="one", B="2", D="four"))
    assert told == {"sections_added": ["D"], "sections_removed": ["C"], "sections_changed": ["B"]}


def test_the_metadata_names_the_changed_documents(town: Town) -> None:
    texts = {f"u{number}": STORY.format(number) for number in range(30)}
    town.crawl(texts, MONDAY)
    assert town.meta()["changes"] is None, "there is nothing to compare with"
    changed = {url: text.replace("Sunday", "Monday") for url, text in texts.items() if url != "u9"}
    town.crawl(changed, TUESDAY)
    told = town.meta()["changes"]
    assert (told["added"], told["changed"], told["gone"]) == (0, 29, 1)
    assert [row["url"] for row in told["first"]] == sorted(changed)[:20]
    assert json.loads(json.dumps(told)) == told
    town.crawl({**changed, "u9": STORY.format(9), "u0": STORY.format(0)}, FRIDAY)
    told = town.meta()["changes"]
    assert [(row["url"], row["change"]) for row in told["first"]] == [("u0", "changed"), ("u9", "added")]


def test_a_source_all_of_whose_pages_are_dropped_blocks_what_follows(town: Town) -> None:
    town.crawl({f"u{number}": "Two words." for number in range(3)}, MONDAY)
    outcome = build_key(town.stage, "town", town.work)
    assert outcome.artifact is not None
    assert outcome.artifact.meta["dropped"] == 3
    assert outcome.blocked is not None
    assert "0 documents of 3 pages; 3 x " in outcome.blocked
    town.crawl({"u0": STORY.format("eight"), "u1": "Two words.", "u2": "Two words."}, TUESDAY)
    checks = {check.name: check.passed for check in town.build().checks}
    assert checks.pop("few_dropped") is False
    assert all(checks.values())


def test_pdfs_with_pages_that_are_images_are_told_by_name(town: Town) -> None:
    text, scan = Sheet(), Sheet()
    text.flow(50, 700, STORY.format("eight"), 60)
    scan.picture(595, 842)
    bodies = {"half.pdf": pdf(text, scan, text, scan), "whole.pdf": pdf(text)}
    town.crawl({name: body.decode("latin-1") for name, body in bodies.items()}, MONDAY, "application/pdf")
    home = town.work.home
    rows = read_manifest(home, "town").to_dicts()
    for row in rows:
        row["sha256"] = write_body(home, bodies[row["url"]])
    write_manifest(home, "town", frame(rows, PAGES))
    town.work.store.commit(Artifact("pages", "town", "pages", manifest_digest(read_manifest(home, "town"))))
    check = {check.name: check for check in town.build().checks}["no_scans"]
    assert (check.passed, check.severe) == (False, False)
    assert check.description == (
        "1 PDFs have pages that are images, whose words are missing (`ocr` of the source reads them): "
        "half.pdf (pages 2,4)"
    )


@pytest.mark.parametrize("vanish", [False, True])
def test_a_page_whose_headings_vanish_fails_a_check(
    town: Town, monkeypatch: pytest.MonkeyPatch, *, vanish: bool
) -> None:
    heads = "".join(f"<h2>Quay {number}</h2><p>{STORY.format(number)}</p>" for number in range(4))
    if vanish:  # as by a mistake in the cleaner
        monkeypatch.setattr(article, "_structured", lambda text, *_, **__: (STORY, ()))
    town.crawl({"a.html": f"<html><body>{heads}</body></html>"}, MONDAY, "text/html")
    outcome = town.build()
    check = {check.name: check for check in outcome.checks}["keeps_headings"]
    assert (check.passed, check.severe) == (not vanish, False)
    assert outcome.artifact is not None
    assert outcome.artifact.meta["fidelity"] == {"headings": [4, 4 * (not vanish)]}
    if vanish:
        assert check.description == "1 pages lost more than half of their headings: a.html (0 of 4)"
