"""What differs after re-crawls of the sample blog: these documents and no others, and what hangs on them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rag_assay.evals.reporting.changes.diff import Diff, diff
from rag_assay.evals.reporting.changes.diff_page import diff_json, diff_page
from rag_assay.evals.reporting.changes.history import history_chart, marks_of, steps
from rag_assay.evals.reporting.changes.pages import labels_of
from rag_assay.evals.reporting.changes.results import Change, HistoryEntry, entries_of
from rag_assay.evals.reporting.markdown import render_page as render_markdown
from rag_assay.evals.reporting.page import render_page
from rag_assay.orchestration.settings import prepare
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.history import history_records
from rag_assay.warehouse.paths import Home, home
from tests.fakes.commands import assay
from tests.fakes.recrawled import (
    DATASETS,
    HERON,
    HOSTING,
    LICENCES,
    ON_CALL,
    Blog,
    run_harbour,
    write_harbour,
)
from tests.fakes.site import serving

pytestmark = pytest.mark.models
MOVED = "/2021/01/19/licences-for-our-code/"
NEW = "/2024/07/01/a-ferry/"


@dataclass(frozen=True)
class Harbour:
    """A home in which the blog was crawled three times; the results of its study, the oldest first."""

    home: Home
    path: Path
    base: str
    entries: list[HistoryEntry]

    def diff(self, before: int, after: int) -> Diff:
        return diff(self.entries[before], self.entries[after], ArtifactStore(self.home))


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory, weights: Callable[[str], Path]) -> Iterator[Harbour]:
    weights("all-MiniLM-L6-v2")
    folder = tmp_path_factory.mktemp("harbour")
    with pytest.MonkeyPatch.context() as patch, serving() as site:
        patch.setenv("ASSAY_HOME", str(folder / "var"))
        patch.setenv("DAGSTER_HOME", "")
        prepare()
        blog = Blog(site)
        path = write_harbour(folder, site)
        run_harbour(path, home())
        three_pages(blog)
        run_harbour(path, home())
        other_kinds(blog)
        run_harbour(path, home())
        yield Harbour(home(), path, site.base, entries_of(home(), "harbour"))


def three_pages(blog: Blog) -> None:
    """Change the texts of three posts, and around all of them the site's title, its notice and its menu."""
    blog.edit(ON_CALL, "£140 for the week", "£155 for the week")
    blog.edit(DATASETS, "</p>\n</div>", " We counted them twice.</p>\n</div>")
    blog.edit(HERON, "</p>\n</div>", " It came back on Friday.</p>\n</div>")
    blog.everywhere("Fine</button>", "All right</button>")
    blog.everywhere('<a href="/tags/">Tags</a> <a href="/about/">About us</a>', '<a href="/about/">About</a>')
    blog.everywhere("The blog of Port Ellery’s digital team", "Read the weblog of Port Ellery")


def other_kinds(blog: Blog) -> None:
    """Move a post, remove one, add one, and date one otherwise."""
    blog.move(LICENCES, MOVED)
    blog.remove(HOSTING)
    text, kind = blog.pages[HERON]
    blog.pages[NEW] = (
        text.replace(HERON, NEW)
        .replace("Grey Heron", "A ferry")
        .replace("</p>\n</div>", " It pays.</p>\n</div>"),
        kind,
    )
    index, kind = blog.pages["/"]
    blog.pages["/"] = (index.replace(f'href="{HERON}"', f'href="{NEW}"', 1), kind)
    blog.put("/", NEW)
    blog.edit(DATASETS, "2022-05-17", "2022-05-19")


def changes_of(found: Diff) -> dict[str, Change]:
    return {one.url.partition("//")[2].partition("/")[2]: one.change for one in found.documents}


def test_three_changed_pages_are_named_and_no_other(harbour: Harbour) -> None:
    found = harbour.diff(0, 1)
    assert changes_of(found) == dict.fromkeys((path[1:] for path in (ON_CALL, DATASETS, HERON)), Change.TEXT)
    hanging = {one.url.removeprefix(harbour.base): found.hanging[one.doc_id] for one in found.documents}
    assert hanging[ON_CALL].answers >= 2
    assert "pay" in hanging[ON_CALL].questions
    assert hanging[HERON].answers == hanging[HERON].rankings == 0
    assert "no answer depends on it" in render_markdown(diff_page(found))
    pay = [row for row in found.answers.iter_rows(named=True) if row["question_id"] == "pay"]
    assert {row["cell"] for row in pay} == {"t96.minilm.words.quote", "t96.minilm.meaning.quote"}
    of = next(one.doc_id for one in found.documents if one.url.endswith(ON_CALL))
    for row in pay:
        assert "£140" in row["old"]
        assert "£155" in row["new"]
        assert row["causes"] == [of]
        assert row["effects"] == ["changed"]
    texts = {
        row["how"]: row["text"] for row in found.passages.iter_rows(named=True) if row["question_id"] == "pay"
    }
    assert "£140" in texts["left"]
    assert "£155" in texts["entered"]
    assert not found.parts
    assert found.gone == ()


def test_documents_that_came_went_moved_or_have_another_date(harbour: Harbour) -> None:
    found = harbour.diff(1, 2)
    assert changes_of(found) == {
        MOVED[1:]: Change.MOVED,
        HOSTING[1:]: Change.REMOVED,
        NEW[1:]: Change.ADDED,
        DATASETS[1:]: Change.FACTS,
    }
    notes = {one.change: one.note for one in found.documents}
    assert notes[Change.MOVED] == f"was at {harbour.base}{LICENCES}"
    assert notes[Change.FACTS] == "date: 2022-05-17T10:00:00+01:00 → 2022-05-19T10:00:00+01:00"
    moved = next(one for one in found.documents if one.change is Change.MOVED)
    assert found.hanging[moved.doc_id].rankings == 0, "its passages are what they were"


def test_all_of_it_is_one_comparison_and_its_mirror(harbour: Harbour) -> None:
    there, back = harbour.diff(0, 2), harbour.diff(2, 0)
    mirrored = {Change.ADDED: Change.REMOVED, Change.REMOVED: Change.ADDED}
    changes, others = (sorted(one.change for one in found.documents) for found in (there, back))
    assert sorted(mirrored.get(one, one) for one in changes) == others
    assert len(there.answers) == len(back.answers)
    assert [one.difference for one in there.moves] == pytest.approx([-one.difference for one in back.moves])
    same = harbour.diff(2, 2)
    assert not len(same.answers)
    assert not len(same.rankings)
    assert same.documents == ()
    assert {one.p for one in same.moves} == {1.0}


def test_the_commands_find_results_by_number_and_moment(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(harbour.home.root))
    done = assay("diff", "harbour@2", "harbour@1", "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert len(found["documents"]) == 3
    moment = f"{harbour.entries[0].at:%Y-%m-%dT%H:%M:%S.%f}"
    again = json.loads(assay("diff", f"harbour@{moment}", f"{harbour.path}@1", "--format", "json").stdout)
    assert again == found
    assert json.loads(diff_json(harbour.diff(0, 1))) == found
    shown = assay("diff", "harbour@2", "harbour@1")
    assert "3 documents differ" in shown.stdout
    page = Path(assay("diff", "harbour@1", "harbour", "--format", "html").stdout.strip())
    assert page == harbour.home.reports / "harbour-diff.html"
    for written, expected in (
        ("harbour@3", "harbour has had 3 results; "),
        ("harbour@2020-01-31", "no result of harbour is that old; its first is of"),
        ("harbour@tuesday", "'tuesday' is not a point in time; write a date as in 2026-11-01"),
        ("demmo@1", "did you mean `demo`?"),
        ("demo", "demo has no history yet; `assay run demo` begins one"),
    ):
        done = assay("diff", written, "harbour")
        assert done.returncode == 2
        assert expected in done.stderr


def test_the_history_marks_what_changed(harbour: Harbour) -> None:
    found = steps(harbour.entries, ArtifactStore(harbour.home))
    assert [one.corpus for one in found] == ["", "~3", "+1 −1 →1 ·1"]
    assert [marks_of(one) for one in found] == ["", "D", "D"]
    drawn = history_chart(found, labels_of({one.cell for step in found for one in step.entry.cells}))
    assert drawn is not None
    assert [tick.above for tick in drawn.x_ticks] == ["", "D", "D"]
    assert len(drawn.points) == 3 * len(drawn.lines)


def test_what_is_gone_is_said_and_nothing_is_made_up(harbour: Harbour, tmp_path: Path) -> None:
    root = shutil.copytree(harbour.home.root, tmp_path / "var")
    store = ArtifactStore(Home(root))
    first = harbour.entries[0]
    documents = str(first.sources["posts"]["identity"])
    shutil.rmtree(store.place("documents", documents))
    shutil.rmtree(store.place("answers", first.artifacts["answers"]["harbour.t96.minilm.words.quote"]))
    found = diff(first, harbour.entries[1], store)
    assert found.documents == ()
    name = first.name
    assert found.gone == (
        f"the documents of posts of {name}",
        f"the answers of harbour.t96.minilm.words.quote of {name}",
    )
    assert set(found.answers["cell"]) == {"t96.minilm.meaning.quote"}
    assert found.answers["causes"].list.len().sum() == 0
    assert "No longer in the workspace" in render_page(diff_page(found))
    assert steps(harbour.entries[:2], store)[1].corpus == "?"


def test_the_history_is_all_that_names_artifacts_of_then(harbour: Harbour) -> None:
    store = ArtifactStore(harbour.home)
    for record in history_records(harbour.home, "harbour"):
        assert all(
            store.find(stage, identity)
            for stage, named in record["artifacts"].items()
            for identity in named.values()
        )
        assert store.find("leaderboard", record["leaderboard"])
