"""What a study is made of: cells, keys, samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from rag_assay.assets.recipes.build_half import absolute
from rag_assay.evals.questions import Questions
from rag_assay.evals.study.cells import NO_GENERATOR, Slice
from rag_assay.evals.study.grid import Grid, question_sets, read_questions_of, set_name
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.identity import sha256_file
from tests.fakes.tiny import STUDY, partial_study, write_study

MORE = {
    "  t16: {tokens: {size: 16, overlap: 4}}\n": "  t16: {tokens: {size: 16}}\n  t32: {tokens: {size: 32}}\n",
    "generators:\n": "generators:\n  llm: {llm: {model: openai/x}}\n",
    "questions:\n": "restrict:\n  llm: {chunkings: [t32], retrievers: [dense], sample: 2}\nquestions:\n",
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return read_study(write_study(tmp_path, MORE))


def test_restrictions_make_a_sparse_grid(study: Study) -> None:
    assert [cell.key for cell in study.cells()] == [
        "tiny.t16.minilm.bm25.extractive",
        "tiny.t16.minilm.dense.extractive",
        "tiny.t32.minilm.bm25.extractive",
        "tiny.t32.minilm.dense.llm",
        "tiny.t32.minilm.dense.extractive",
    ]
    assert [cell.subset for cell in study.cells()] == ["all", "all", "all", "sample of 2", "all"]


def test_a_copy_has_the_cells_of_its_own_name_and_components(study: Study) -> None:
    assert len(study.cells()) == 5
    renamed = study.sliced("other", Slice("tiny", None, None, 5, 5, 3, 3))
    assert {cell.study for cell in renamed.cells()} == {"other"}
    fewer = study.model_copy(update={"chunkings": {"t32": study.chunkings["t32"]}})
    assert [cell.chunking for cell in fewer.cells()] == ["t32"] * 3
    assert len(study.cells()) == 5


def test_pipelines_that_no_generator_answers_are_compared_by_rankings(tmp_path: Path) -> None:
    restricted = "restrict:\n  extractive: {retrievers: [dense], others: rankings}\nquestions:\n"
    study = read_study(write_study(tmp_path, {"questions:\n": restricted}))
    assert [cell.short for cell in study.cells()] == ["t16.minilm.bm25.none", "t16.minilm.dense.extractive"]
    assert {metric.kind for metric in study.metrics_of(study.cells()[0])}.isdisjoint({"answer"})
    both = restricted.replace("dense", "dense, bm25")
    assert NO_GENERATOR not in {
        cell.generator for cell in read_study(write_study(tmp_path, {"questions:\n": both})).cells()
    }


def test_keys_are_named_once(study: Study) -> None:
    assert study.rankings() == [f"tiny.{c}.minilm.{r}" for c in ("t16", "t32") for r in ("bm25", "dense")]
    assert study.indexes() == ["ferries.t16.minilm", "ferries.t32.minilm"]
    assert study.chunk_sets() == ["ferries.t16", "ferries.t32"]


def test_the_grid_of_two_studies_shares_what_is_built(tmp_path: Path) -> None:
    first = read_study(write_study(tmp_path))
    second = read_study(write_study(tmp_path, {"study: tiny": "study: other", DENSE: ""}, name="other"))
    grid = Grid([first, second])
    assert sorted(grid.cells) == [
        "other.t16.minilm.bm25.extractive",
        "tiny.t16.minilm.bm25.extractive",
        "tiny.t16.minilm.dense.extractive",
    ]
    assert sorted(grid.rankings) == ["other.t16.minilm.bm25", "tiny.t16.minilm.bm25", "tiny.t16.minilm.dense"]
    assert list(grid.build.indexes) == ["ferries.t16.minilm"]
    assert list(grid.sets) == ["ferries.ferry"]
    assert grid.set_keys("other") == ["ferries.ferry"]
    assert grid.index_key(grid.cells["other.t16.minilm.bm25.extractive"]) == "ferries.t16.minilm"


def test_a_powerset_is_all_its_combinations(tmp_path: Path) -> None:
    powerset = (
        "bm25: {bm25: {k: 5}}\n  all: {powerset: [bm25, {recency: {decay: 0.5}}, bm25], fuse: rrf, k: 4}\n"
    )
    limit = {"seed: 7": "restrict: {extractive: {retrievers: [all-none, all-bm25+recency]}}"}
    study = read_study(write_study(tmp_path, {"bm25: {bm25: {k: 5}}\n": powerset, **limit}))
    combined = {name: recipe for name, recipe in study.retrievers.items() if name.startswith("all-")}
    assert list(combined) == [
        *("all-none", "all-bm25", "all-recency", "all-bm25-2", "all-bm25+recency", "all-bm25+bm25-2"),
        *("all-recency+bm25-2", "all-bm25+recency+bm25-2"),
    ]
    assert combined["all-none"].kind == "nothing"
    assert combined["all-bm25"].k == 4
    both = combined["all-bm25+recency"]
    assert both.k == 4
    assert [arm.k for arm in both.of] == [100, 100]
    assert both.of[1].decay == 0.5
    assert [cell.retriever for cell in study.cells()] == ["all-none", "all-bm25+recency"]
    # A combination is what one would write by hand, and the study says the same when it is read again.
    written = "{fuse: {rrf: {}, of: [{bm25: {k: 100}}, {recency: {k: 100, decay: 0.5}}], k: 4}}"
    by_hand = read_study(write_study(tmp_path / "hand", {"{bm25: {k: 5}}": written}))
    assert by_hand.retrievers["bm25"].identity() == combined["all-bm25+recency"].identity()
    assert Study.model_validate(study.model_dump()).retrievers == study.retrievers


def test_a_chain_is_a_list(tmp_path: Path) -> None:
    chain = "[{keywords: {}}, {fuse: {of: [{bm25: {k: 50}}, {dense: {}}], k: 20}}, {neighbours: {n: 2}}]"
    study = read_study(write_study(tmp_path, {"{bm25: {k: 5}}": chain}))
    recipe = study.retrievers["bm25"]
    assert recipe.kind == "chain"
    assert [link.kind for link in recipe.steps] == ["keywords", "fuse", "neighbours"]
    assert recipe.k == 20
    assert recipe.at_depth(7).k == 7
    assert recipe.needs_vector
    assert len(recipe.versions()) == 6  # chain, keywords, fuse and its two arms, neighbours
    other = read_study(write_study(tmp_path / "b", {"{bm25: {k: 5}}": chain.replace("n: 2", "n: 1")}))
    assert other.retrievers["bm25"].identity() != recipe.identity()


DENSE = "  dense: {dense: {k: 5}}\n"


def test_a_study_without_generators_has_cells_without_answers(tmp_path: Path) -> None:
    generators = "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
    study = read_study(write_study(tmp_path, {generators: "", "abstention, ": ""}))
    assert [cell.key for cell in study.cells()] == ["tiny.t16.minilm.bm25.none", "tiny.t16.minilm.dense.none"]
    assert Grid([study]).answered() == []


def test_a_sample_is_drawn_by_the_seed_in_the_order_of_the_file() -> None:
    study = partial_study(seed=7)
    ids = [f"q{number:03}" for number in range(100)]
    drawn = study.sampled(ids, 20)
    assert len(drawn) == 20
    assert drawn == sorted(drawn)
    assert drawn == study.sampled(ids, 20)
    assert set(drawn) == set(study.sampled(ids[::-1], 20))
    assert drawn != partial_study(seed=8).sampled(ids, 20)
    assert set(drawn) < set(study.sampled(ids, 40))
    assert study.sampled(ids, None) == study.sampled(ids, 100) == study.sampled(ids, 500) == ids


def test_each_added_question_moves_one_of_the_sample_at_most() -> None:
    study = partial_study(seed=7)
    ids = [f"q{number:03}" for number in range(100)]
    drawn = set(study.sampled(ids, 20))
    for added in range(1, 6):
        more = set(study.sampled([*ids, *(f"new{number}" for number in range(added))], 20))
        assert len(drawn - more) <= added
    assert any(set(study.sampled([*ids, f"new{number}"], 20)) != drawn for number in range(50))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("ferry.questions.yaml", "ferry"),
        ("demo/Energy.questions.yaml", "energy"),
        ("a.b.questions.yaml", "a-b"),
        ("plain.yaml", "plain"),
    ],
)
def test_a_question_set_is_named_by_its_file(file: str, name: str) -> None:
    assert set_name(Path(file)) == name


def test_question_sets_of_a_file_and_of_beir(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    beir = "- file: ferry.questions.yaml\n  - beir: {path: small, split: dev, name: small-dev}"
    study = read_study(write_study(tmp_path, {"- file: ferry.questions.yaml": beir}))
    plain, graded = question_sets(study)
    assert (plain.key, plain.path, plain.beir) == ("ferries.ferry", tmp_path / "ferry.questions.yaml", None)
    assert (graded.key, graded.path) == ("ferries.small-dev", tmp_path / "small")
    assert graded.beir is not None
    assert graded.beir.split == "dev"


def test_paths_start_from_the_study_and_then_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "both").touch()
    (here / "only-here").touch()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert absolute("both", there) == there / "both"
    assert absolute("only-here", there) == here / "only-here"
    assert absolute("nowhere", there) == there / "nowhere"
    assert absolute("~/x", there) == tmp_path / "x"
    assert absolute("/x/y", there) == Path("/x/y")


def test_a_study_that_is_made_in_python_is_refused_with_the_places_of_what_does_not_fit() -> None:
    data = yaml.safe_load(STUDY) | {"metrics": ["ndcg@10", "ndcg@10"]}
    with pytest.raises(ValidationError, match=r"metrics item 2: the metric ndcg@10 is named twice"):
        Study.model_validate(data)


def test_a_set_is_what_the_study_says_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "Exam.v2.txt").write_text("When does the ferry leave the harbour? = At noon = 12.\n")
    (tmp_path / "more.csv").write_text("id,question,ground_truth\nm,Who is the captain?,Nobody\n")
    entries = (
        "- {file: Exam.v2.txt, language: de, asked_at: 2024-05-31, evidence: ground_truth}\n"
        "  - {file: more.csv, name: other, use: train}"
    )
    path = write_study(tmp_path, {"- file: ferry.questions.yaml": entries})
    study = read_study(path)
    grid = Grid([study])
    assert sorted(grid.sets) == ["ferries.exam-v2", "ferries.other"]
    assert (grid.set_keys("tiny"), grid.train_keys("tiny")) == (["ferries.exam-v2"], ["ferries.other"])
    (row,) = read_questions_of(study)
    assert (row["language"], row["asked_at"], row["question_set"]) == ("de", "2024-05-31", "exam-v2")
    assert row["evidence"][0]["by_truth"] is True


def test_what_is_said_of_a_set_is_part_of_its_identity_and_what_is_not_said_is_not(tmp_path: Path) -> None:
    (tmp_path / "exam.txt").write_text("When does the ferry leave? = At noon.\n")
    recipes = []
    for said in ("", ", language: de", ", evidence: ground_truth", ", asked_at: 2024-05-31"):
        write_study(tmp_path, {"- file: ferry.questions.yaml": f"- {{file: exam.txt{said}}}"})
        stage = Questions(Grid([read_study(tmp_path / "tiny.yaml")]))
        recipes.append(stage.recipes("ferries.exam")["questions.ferries.exam"])
    assert len(set(recipes)) == 4
    (tmp_path / "exam.txt").rename(tmp_path / "exam.csv")
    write_study(tmp_path, {"- file: ferry.questions.yaml": "- {file: exam.csv}"})
    stage = Questions(Grid([read_study(tmp_path / "tiny.yaml")]))
    assert stage.recipes("ferries.exam")["questions.ferries.exam"] not in recipes, "read in another way"
    write_study(tmp_path)
    stage = Questions(Grid([read_study(tmp_path / "tiny.yaml")]))
    plain = sha256_file(tmp_path / "ferry.questions.yaml")
    assert stage.recipes("ferries.ferry")["questions.ferries.ferry"] == plain, "as it always was"
