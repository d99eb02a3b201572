"""Mapping files: every mistake at once, each with its line and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest

import rag_assay.evals.study.registry  # noqa: F401 -- fills the registry of rubrics
from rag_assay.evals.spreadsheet_import.mapping import read_mapping, with_rubrics
from rag_assay.warehouse.errors import InputError
from tests.fakes.scored_sheets import MAPPING


def mistakes(tmp_path: Path, text: str, study: str | None = None) -> list[str]:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    stored = tmp_path / "study.yaml"
    if study is not None:
        stored.write_text(study)
    with pytest.raises(InputError) as error:
        with_rubrics(path, read_mapping(path), stored)
    return [one.replace(f"{tmp_path}/", "") for one in error.value.findings]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  question: question\n", "", "4: `columns.question` is missing"),
        ("  answer: answer", "  anser: answer", "6: unknown key `anser`; did you mean `answer`?"),
        ("  generator: llama-2\n", "", "9: `cell.generator` is missing"),
        (
            "generator: llama-2",
            "generator:",
            "12: `cell.generator` is empty; give it a value or delete",
        ),
        ("generator: llama-2", "generator: none", "12: the name `none` is kept for cells without a"),
        (
            "generator: llama-2",
            "generator: Llama 2",
            "12: cell.generator.name: use small letters, digits",
        ),
        (
            "{column: retrieve_methods}",
            "{}",
            "11: cell.retriever: give either a name, or the `column`",
        ),
        (
            "{column: retrieve_methods}",
            "[a]",
            "11: cell.retriever: must be a mapping with keys out of",
        ),
        ("  points: Score", "  punkte.x: Score", "14: no rubric or criterion `punkte.x`; "),
        (
            "  points: Score",
            "  points: {column: Score, values: {gut: 4}}",
            "14: 'gut': 4 is not a value of",
        ),
        (
            "  points: Score",
            "  points: {column: Score, values: {a: viel}}",
            "14: scores.points.values.a: ",
        ),
        ("scores:\n  points: Score", "scores: {}", "13: scores: needs at least 1, has 0"),
        ("study: sport", "study: ../etc", "1: study: use small letters, digits"),
        ("sheet: llama", "sheet: ../x", "2: sheet: use small letters, digits"),
        ("language: de", "language: German", "3: language: must match"),
        (
            "annotator: vanny",
            "rubrics: {points: {pionts: {}}}",
            "15: unknown key `pionts`; did you mean",
        ),
        ("annotator: vanny", "empty_answers: maybe", "15: empty_answers: must be 'keep' or 'reject'"),
        (MAPPING, "- a\n", "1: a mapping file is a mapping that begins with `study: NAME`"),
    ],
)
def test_a_mistake_has_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in MAPPING
    found = mistakes(tmp_path, MAPPING.replace(old, new))
    assert any(one.startswith(f"m.yaml:{told}") for one in found), found


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = MAPPING.replace("question: question", "frage: question").replace("study: sport", "study: A B")
    assert len(mistakes(tmp_path, text)) == 3


STUDY = "study: sport\nrubrics:\n  points: {points: {anchors: {1: good, 0: bad}}}\n"


def test_scores_by_two_wordings_are_not_mixed(tmp_path: Path) -> None:
    own = MAPPING + "rubrics:\n  points: {points: {anchors: {1: good, 0: worse}}}\n"
    [told] = mistakes(tmp_path, own, STUDY)
    assert told.startswith("m.yaml:17: the rubric `points` stands otherwise, or not at all, in study.yaml")
    (tmp_path / "m.yaml").write_text(own.replace("worse", "bad"))
    read = with_rubrics(tmp_path / "m.yaml", read_mapping(tmp_path / "m.yaml"), tmp_path / "study.yaml")
    assert list(read.criteria["points", None].anchors) == [1.0, 0.0]


def test_a_rubric_of_several_criteria_has_a_column_each(tmp_path: Path) -> None:
    text = MAPPING.replace("  points: Score", "  quality.brevity: Kurz\n  quality.tone: Ton")
    criteria = "{metrics: [], scale: binary, criteria: {brevity: Short?, tone: Kind?}}"
    path = tmp_path / "m.yaml"
    path.write_text(f"{text}rubrics:\n  quality: {{criteria: {criteria}}}\n")
    read = with_rubrics(path, read_mapping(path), tmp_path / "study.yaml")
    assert list(read.criteria) == [("quality", "brevity"), ("quality", "tone")]
    assert read.mapping.wanted()[-2:] == ["Kurz", "Ton"]


def test_pairs_are_no_sheet(tmp_path: Path) -> None:
    text = f"{MAPPING}rubrics:\n  points: {{pairwise: {{against: a.b.c.d}}}}\n"
    assert mistakes(tmp_path, text)[0].startswith("m.yaml:14: `points` compares two answers")


def test_what_a_mapping_says_has_a_digest_however_it_is_written(tmp_path: Path) -> None:
    found = []
    quoted = "# x\n" + MAPPING.replace("llama-2", '"llama-2"')
    for name, text in (("a", MAPPING), ("b", quoted), ("c", MAPPING + "worksheet: x\n")):
        (tmp_path / name).write_text(text)
        found.append(read_mapping(tmp_path / name).digest)
    assert found[0] == found[1] != found[2]
