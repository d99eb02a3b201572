"""What `assay` says of a crawl, and how damage to its pages is noticed and mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.run_report import RunReport
from rag_assay.orchestration.terminal.outcome_sentences import crawl_sentence, document_sentences
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.pages import manifest_file, read_body, read_manifest
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay
from tests.fakes.site import Reply, Site, article, index, serving

pytestmark = pytest.mark.models
STORY = "The harbour office opens at seven in the morning, every day of the week but Sunday."
CRAWL = ("pages", "documents")


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        site["/"] = Reply(index("/a", "/b", "/gone", "/list"))
        site["/list"] = Reply(index("/a"))
        for name in ("/a", "/b"):
            site[name] = Reply(article(f"Article {name}", text=f"{name}: {STORY}"), etag=name)
        yield site


def study_of(site: Site, study_path: Path) -> Study:
    source = f"{{spider: news, start: ['{site.url('/')}'], delay: 0, allow_private: true}}"
    study_path.write_text(study_path.read_text().replace("{reader: folder, path: texts}", source))
    return read_study(study_path)


def crawl(home: Home, study: Study, *, again: bool = True) -> RunReport:
    return Driver(study, home).run(only=CRAWL, again=again)


def test_the_command_says_what_came_of_a_crawl(assay_home: Home, site: Site, study_path: Path) -> None:
    study_of(site, study_path)
    site["/b"] = Reply(article("B", text="Two words."))

    first = assay("run", str(study_path), "--recrawl", "texts", "--only", "documents")
    said = " ".join(first.stderr.split())
    assert first.returncode == 0, first.stderr
    assert "crawl of texts: finished; 2 new, 2 read but not stored, 1 failed (1 status 404)" in said
    assert "documents of texts: 1; 1 page gave none (1 " in said
    assert f"dropped {site.url('/b')}: " in said
    site["/robots.txt"] = Reply("busy", status=503)
    second = assay("run", str(study_path), "--recrawl", "texts", "--only", "documents")
    assert second.returncode == 1
    assert "nothing could be fetched (no start page: robots.txt: status 503)" in " ".join(
        second.stderr.split()
    )
    assert "the 2 pages that are stored stay as they were" in " ".join(second.stderr.split())
    after = crawl(assay_home, read_study(study_path), again=False)
    assert after.ok
    assert after.unchanged, "a run uses what is stored"


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x20
    path.write_bytes(data)


def body_of(home: Home, url_end: str) -> Path:
    rows = read_manifest(home, "texts").rows(named=True)
    return home.body(next(row["sha256"] for row in rows if row["url"].endswith(url_end)))


def rows_of(home: Home) -> list[tuple[object, ...]]:
    artifact = ArtifactStore(home).current("documents", "texts")
    assert artifact is not None
    folder = ArtifactStore(home).folder("documents", artifact.identity)
    rows = read_parquet(folder / "documents.parquet", ["doc_id", "url", "text"]).rows()
    assert len(rows) >= 2
    return rows


def test_damaged_pages_are_told_and_fetched_again_by_the_next_run(
    assay_home: Home, site: Site, study_path: Path
) -> None:
    site["/"] = Reply(index("/a", "/b", "/c"))
    site["/c"] = Reply(article("Article /c", text=f"/c: {STORY}"))
    study = study_of(site, study_path)
    assert crawl(assay_home, study).ok
    whole, text = rows_of(assay_home), study_path.read_text()
    study_path.write_text(text.replace("delay: 0", "delay: 0, language: en"))  # cleans all pages again
    flip(body_of(assay_home, "/a"))
    body_of(assay_home, "/b").unlink()
    noticed = crawl(assay_home, read_study(study_path), again=False)
    assert not noticed.ok
    assert "2 x the stored page is damaged" in noticed.stages[1].failed["texts"]
    for name in ("/a", "/b"):
        assert site.url(name) in noticed.stages[1].failed["texts"]
    mended = crawl(assay_home, read_study(study_path), again=False)
    assert mended.ok
    study_path.write_text(text)
    assert crawl(assay_home, read_study(study_path), again=False).ok
    assert rows_of(assay_home) == whole


def test_a_damaged_page_that_is_put_back_is_not_fetched_again(
    assay_home: Home, site: Site, study_path: Path
) -> None:
    study = study_of(site, study_path)
    assert crawl(assay_home, study).ok
    study_path.write_text(study_path.read_text().replace("delay: 0", "delay: 0, language: en"))
    path = body_of(assay_home, "/a")
    data = path.read_bytes()
    path.write_bytes(b"torn")
    assert not crawl(assay_home, read_study(study_path), again=False).ok
    path.write_bytes(data)
    site.forget()
    mended = crawl(assay_home, read_study(study_path), again=False)
    assert mended.ok
    assert (mended.stages[0].fresh, mended.stages[1].built) == (1, 1)
    assert not site.paths()


def zeros(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(200) + data[204:])


def test_a_damaged_manifest_is_made_again(assay_home: Home, study_path: Path) -> None:
    study = read_study(study_path)
    assert crawl(assay_home, study).ok
    whole = rows_of(assay_home)
    damages: tuple[Callable[[Path], object], ...] = (zeros, Path.unlink)
    for damage in damages:
        damage(manifest_file(assay_home, "texts"))
        mended = crawl(assay_home, study, again=False)
        assert mended.ok
        assert mended.stages[0].built == 1
        assert rows_of(assay_home) == whole
        manifest = read_manifest(assay_home, "texts")
        assert len(manifest) == 3
        assert all(read_body(assay_home, sha256) for sha256 in manifest["sha256"])


def test_a_reading_that_failed_elsewhere_leaves_nothing_behind(
    assay_home: Home, study_path: Path, edit: Callable[[str, str], Study]
) -> None:
    """A, a folder B that cannot be read to its end, A again: the pages of A are those of A."""
    assert crawl(assay_home, read_study(study_path)).ok
    whole = rows_of(assay_home)
    other = study_path.parent / "other"
    other.mkdir()
    (other / "ferry.txt").write_text("Another ferry, of which nobody was to hear.")
    (other / "table.jsonl").write_text("")
    broken = edit("{reader: folder, path: texts}", "{reader: beir, path: other}")
    assert not crawl(assay_home, broken).ok
    back = edit("{reader: beir, path: other}", "{reader: folder, path: texts}")
    assert crawl(assay_home, back, again=False).ok
    assert rows_of(assay_home) == whole


def test_sentences() -> None:
    killed = {"outcome": "killed", "new": None, "failed": "{}"}
    assert crawl_sentence("s", killed) == "crawl of s: killed; nothing was found"
    cut = {"outcome": "limit: 9 pages", "unchanged": 9, "unmet": 3}
    assert crawl_sentence("s", cut) == (
        "crawl of s: cut off by its limit of 9 pages; 9 unchanged, 3 not met again (they stay stored)"
    )
    many = {"outcome": "finished", "unchanged": 12345, "failed": '{"b": 2, "a": 2, "host not found": 30}'}
    assert crawl_sentence("s", many) == (
        "crawl of s: finished; 12,345 unchanged, 34 failed (30 host not found, 2 a, 2 b)"
    )
    meta = {
        "documents": 3,
        "dropped": 12,
        "dropped_by_reason": {"too short: 1 word": 12},
        "dropped_first": [[f"u{n}", "too short: 1 word"] for n in range(10)],
    }
    said = document_sentences("s", meta)
    assert said[0] == "documents of s: 3; 12 pages gave none (12 too short: 1 word)"
    assert said[1] == "  dropped u0: too short: 1 word"
    assert (len(said), said[-1]) == (12, "  … and 2 more, in dropped.parquet")
    assert document_sentences("s", {"documents": 3, "dropped": 0}) == ["documents of s: 3"]
