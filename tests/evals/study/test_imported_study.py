"""A study file that imports sheets: what it says, what is wrong with it, and where it is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.run_studies import (
    find_known,
    known_path,
    known_studies,
    note,
    recorded_studies,
    refuse_taken,
)
from rag_assay.evals.study.study_check import check_study
from rag_assay.evals.study.study_file import StudyCollection, read_studies, read_study
from rag_assay.evals.study.study_names import study_files
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.imported import QUESTIONS, grid, imported, put_sheet, row
from tests.fakes.tiny import write_study

LLAMA = {"llama": grid()}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def findings(home: Home, changes: dict[str, str]) -> list[str]:
    path = imported(home, LLAMA, changes)
    with pytest.raises(InputError) as caught:
        read_study(path)
    return [one.replace(str(path.parent), "") for one in caught.value.findings]


def test_it_says_where_its_sheets_lie_and_they_say_the_rest(home: Home) -> None:
    study = read_study(imported(home, LLAMA))
    assert isinstance(study, ImportedStudy)
    assert study.folder == home.root / "imports" / "ferry"
    assert (len(study.cells()), len(study.runs()), [*study.generators]) == (4, 4, ["llama"])
    assert (study.rankings(), study.indexes(), study.chunk_sets()) == ([], [], [])
    assert check_study(study.path, home).questions == len(QUESTIONS)


@pytest.mark.parametrize(
    "key",
    [
        "sources: {docs: {reader: folder, path: .}}",
        "corpus: {name: ferries, sources: [docs]}",
        "chunkings: {t16: {tokens: {size: 16}}}",
        "embedders: {minilm: {model: all-MiniLM-L6-v2}}",
        "retrievers: {bm25: {bm25: {}}}",
        "generators: {quotes: {extractive: {}}}",
        "replicates: 2",
        "trace: 5",
    ],
)
def test_it_builds_nothing(home: Home, key: str) -> None:
    name = key.partition(":")[0]
    (finding,) = findings(home, {"imports: .\n": f"imports: .\n{key}\n"})
    assert finding == f"/study.yaml:4: the answers of this study come from sheets: delete `{name}`"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "imports: .",
            "imports: elsewhere",
            r"study.yaml:3: there is no sheet in .*/elsewhere; `assay ratings import",
        ),
        ("imports: .", "imports: 5", r"study.yaml:3: imports: must be text"),
        ("imports: .", "imports: ~nobody-at-all/x", r"study.yaml:3: .* cannot be used as a path"),
        ("imports: .", "import: .", r"unknown key `import`"),
        ("imports: .", "imports: .\nsheet_cells: []", r"study.yaml:4: .* delete `sheet_cells`"),
        ("rouge_l", "rogue_l", r"unknown metric `rogue_l`|rogue_l"),
        ("rouge_l", "sure.correct", r"unknown judge `sure`"),
        (
            "metrics:",
            "restrict: {lama: {sample: 2}}\nmetrics:",
            r"unknown generator `lama`; did you mean `llama`",
        ),
        (
            "metrics:",
            "restrict: {llama: {retrievers: [dens]}}\nmetrics:",
            r"unknown retriever `dens`; did you mean `dense`",
        ),
        ("questions.jsonl", "question.jsonl", r"study.yaml:5: there is no .*question.jsonl"),
    ],
)
def test_each_mistake_is_told_once_and_with_its_line(home: Home, old: str, new: str, said: str) -> None:
    found = findings(home, {old: new})
    matching = [one for one in found if re.search(said, one)]
    assert matching, found
    assert len(found) == 1 or "import:" in new, found


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("retriever", "Dense", "the sheet llama has a retriever `Dense`: use small letters"),
        ("chunking", "a.b", "has a chunking `a.b`"),
        ("generator", "-", "has a generator `-`"),
        ("generator", "none", "the name `none` is kept"),
        ("embedder", None, "has a embedder `None`"),
        ("replicate", 1, "two answers to 'noon' \\(replicate 1\\) in llama: give one of the sheets"),
    ],
)
def test_sheets_that_cannot_be_cells_are_refused(home: Home, column: str, value: Any, said: str) -> None:
    path = imported(home, {"llama": [row("noon", "At noon."), row("noon", "At one.", replicate=2)]})
    rows = [
        row("noon", "At noon.", **{column: value}),
        row("noon", "At one.", **{column: value, "replicate": 2}),
    ]
    if column == "replicate":
        rows = [row("noon", "At noon."), row("noon", "At one.")]
    put_sheet(path.parent, "llama", rows)
    with pytest.raises(InputError, match=said):
        read_study(path)


def test_two_sheets_that_answer_otherwise_are_told_apart_by_a_person(home: Home) -> None:
    same = imported(home, {"a": grid(), "b": grid()})
    assert len(read_study(same).cells()) == 4  # two people have scored the same answers
    path = imported(home, {"a": grid(), "b": [{**one, "answer": "No."} for one in grid()]})
    with pytest.raises(InputError, match=r"has two answers to 'noon' .* in a and b: give one of the sheets"):
        read_study(path)


@pytest.mark.parametrize("data", [b"", b"no parquet", b"PAR1" + bytes(64) + b"PAR1"])
def test_a_damaged_sheet_is_told_with_its_path(home: Home, data: bytes) -> None:
    path = imported(home, LLAMA)
    (path.parent / "sheets" / "llama" / "rows.parquet").write_bytes(data)
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read: import the sheet again"):
        read_study(path)
    pl.DataFrame({"line": [1]}).write_parquet(path.parent / "sheets" / "llama" / "rows.parquet")
    with pytest.raises(InputError, match=r"rows\.parquet cannot be read: import the sheet again"):
        read_study(path)


def test_a_sheet_that_is_still_being_written_is_none(home: Home) -> None:
    path = imported(home, LLAMA)
    put_sheet(path.parent, ".mixtral.123.abc", grid("mixtral"))
    assert {cell.generator for cell in read_study(path).cells()} == {"llama"}


def test_it_is_known_by_its_name_wherever_the_home_lies(home: Home, tmp_path: Path) -> None:
    path = imported(home, LLAMA)
    assert known_path("ferry", home) == path.resolve()
    assert find_known("ferry", home).study == "ferry"
    assert [one.cells for one in known_studies(home) if one.name == "ferry"] == [4]
    assert "ferry" in read_studies([*recorded_studies(home), *study_files(tmp_path)]).studies
    with pytest.raises(InputError, match="did you mean `ferry`"):
        known_path("fery", home)
    note(read_study(path), home)
    moved = Home(tmp_path / "moved")
    home.root.rename(moved.root)
    assert known_path("ferry", moved) == (moved.root / "imports" / "ferry" / "study.yaml").resolve()
    assert len(find_known("ferry", moved).cells()) == 4


def test_two_of_them_share_no_names(home: Home) -> None:
    other = {"ferry\n": "other\n"}
    rows = [{**one, "contexts": ["Other."]} for one in grid()]
    studies = [read_study(imported(home, LLAMA)), read_study(imported(home, {"llama": rows}, other))]
    assert len(StudyCollection(studies).studies) == 2
    refuse_taken(studies[1], home)


def test_it_shares_none_with_a_study_that_builds_but_its_own(home: Home, tmp_path: Path) -> None:
    sheets = read_study(imported(home, LLAMA, {"study: ferry": "study: ferries"}))
    names = {"t16: {": "c128: {", "extractive: {e": "llama: {e", "ferry.questions.yaml": "questions.yaml"}
    path = write_study(tmp_path / "built", names)
    (path.parent / "questions.yaml").write_text((path.parent / "ferry.questions.yaml").read_text())
    assert (
        len(StudyCollection([sheets, read_study(path)]).studies) == 2
    )  # its corpus is called `ferries`, too
    same = write_study(tmp_path / "same", {"study: tiny": "study: ferries"})
    with pytest.raises(InputError, match=r"study\.ferries means something else"):
        refuse_taken(read_study(same), home)
