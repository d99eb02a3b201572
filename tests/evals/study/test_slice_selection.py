"""A slice is what its patterns say, by a name of its own; what is chosen by no pattern is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.study.grid import Grid, read_questions_of
from rag_assay.evals.study.run_studies import (
    find_slice,
    forget_slice,
    known_slices,
    note_slice,
    slice_study,
)
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.tiny import write_study

PAIRS = {
    "  extractive: {extractive: {passages: 2, max_tokens: 40}}\n": "  extractive: {extractive: {}}\n"
    "  short: {extractive: {passages: 1}}\n"
    "rubrics: {better: {pairwise: {against: t16.minilm.dense.extractive}}}\n"
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return read_study(write_study(tmp_path))


def test_cells_are_chosen_by_patterns(study: Study) -> None:
    assert slice_study(study) is study
    for everything in ("*", "tiny.*", "*.minilm.*.extractive"):
        assert slice_study(study, [everything], "*") is study, "a slice that leaves nothing out is the study"
    one = slice_study(study, ["*.bm25.*"])
    assert [cell.short for cell in one.cells()] == ["t16.minilm.bm25.extractive"]
    assert {cell.study for cell in one.runs()} == {one.study} != {"tiny"}
    assert one.rankings() == [f"{one.study}.t16.minilm.bm25"]
    assert slice_study(study, ["tiny.t16.minilm.bm25.extractive"]).cells()[0].short == one.cells()[0].short
    both = slice_study(study, ["*.bm25.*", "*dense*"], "1")
    assert both.study == slice_study(study, ["*dense*", "*.bm25.*"], "1").study, "their order is nothing"
    assert both.slice
    assert both.slice.sentence == "A slice of tiny: 2 of 2 cells, 1 of 3 questions; not the study's result."
    assert (study.slice, len(study.cells())) == (None, 2), "the study itself stays as it is"


def test_questions_are_a_sample_ids_or_a_pattern(study: Study) -> None:
    def asked(wanted: str) -> list[str]:
        return [row["question_id"] for row in read_questions_of(slice_study(study, (), wanted))]

    everything = ["noon", "tickets", "captain"]
    assert set(asked("1")) < set(asked("2")) < set(everything), "a larger sample holds the smaller one"
    assert asked("tickets, noon") == ["noon", "tickets"]
    assert asked("*c*") == ["tickets", "captain"]
    assert asked("3") == asked("99") == everything
    keys = {
        Grid([slice_study(study, (), one)]).set_keys(slice_study(study, (), one).study)[0]
        for one in ("1", "2")
    }
    assert len({*keys, "ferries.ferry"}) == 3, "each set of questions has a key of its own"


@pytest.mark.parametrize(
    ("cells", "questions", "said"),
    [
        (["*.bm52.*"], None, "'*.bm52.*' is not a cell of tiny; near are t16.minilm.bm25.extractive"),
        (["[", "*"], None, "'[' is not a cell"),
        ([""], None, "'' is not a cell"),
        ([], "nooon", "'nooon' is not a question of tiny; near are noon"),
        ([], "noon,x*", "'x*' is not a question"),
        ([], "0", "0 questions would show nothing"),
        ([], " , ", "give a number, or ids"),
    ],
)
def test_what_chooses_nothing_is_told(
    study: Study, cells: list[str], questions: str | None, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        slice_study(study, cells, questions)
    assert said in str(caught.value)


def test_a_cell_that_others_are_compared_with_is_in_it(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path, PAIRS))
    found = slice_study(study, ["*.bm25.short"])
    assert [cell.short for cell in found.cells()] == [
        "t16.minilm.bm25.short",
        "t16.minilm.dense.extractive",
    ]
    assert found.whole == "tiny", "what people say is kept by the study"


def test_a_slice_is_found_sliced_again_and_forgotten(study: Study, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = slice_study(study, ["*.bm25.*"])
    second = slice_study(first, (), "2")
    assert second.slice
    assert second.slice.sentence == "A slice of tiny: 1 of 2 cells, 2 of 3 questions; not the study's result."
    assert len({study.study, first.study, second.study}) == 3
    for one in (first, second, study):
        note_slice(one, home)
    assert {one.name for one in known_slices(home)} == {first.study, second.study}
    again = find_slice(second.study, home)
    assert (again.study, again.slice, again.cells()) == (second.study, second.slice, second.cells())
    (home.root / "slices" / "tiny~broken.json").write_text("{")
    assert len(known_slices(home)) == 2
    forget_slice(first.study, home)
    assert [one.name for one in known_slices(home)] == [second.study]
    for name in (first.study, "tiny", "../tiny~x", "tiny~*"):
        with pytest.raises(InputError, match="there is no slice"):
            forget_slice(name, home)


def test_a_slice_is_that_of_the_study_as_it_is_now(tmp_path: Path) -> None:
    home, path = Home(tmp_path / "home"), write_study(tmp_path)
    part = slice_study(read_study(path), ["*.bm25.*"])
    note_slice(part, home)
    path.write_text(path.read_text().replace("  dense: {dense: {k: 5}}\n", ""))
    with pytest.raises(InputError, match=r"leaves nothing out .* by now; give tiny"):
        find_slice(part.study, home)
