from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.assets.indexing import index_table
from rag_assay.assets.indexing.index_recipe import IndexFacts, IndexRecipe, SearchParameters, read_facts
from rag_assay.assets.indexing.index_table import (
    AIM,
    RECALL,
    build,
    nearest,
    open_table,
    sample,
    tune_search,
)
from rag_assay.warehouse.parquet import frame
from rag_assay.warehouse.schemas import CHUNKS
from tests.fakes.indexing import HeldRows

COUNT = 1_200
HNSW = IndexRecipe(search="hnsw", ef_construction=60, partitions=2)
IVF_PQ = IndexRecipe(search="ivf_pq", partitions=8)


def rows(start: int = 0, count: int = COUNT) -> HeldRows:
    """Random unit vectors of 32 dimensions: the chunk of a number has the same one in every corpus."""
    vectors = np.random.default_rng(5).standard_normal((start + count, 32)).astype(np.float32)[start:]
    given: list[dict[str, object]] = [
        {"chunk_id": f"{n:05}", "doc_id": f"{n % 4}", "text": f"text {n}"}
        for n in range(start, start + count)
    ]
    return HeldRows(frame(given, CHUNKS), vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def recall(folder: Path, held: HeldRows, search: SearchParameters) -> float:
    """Recall@10 of other questions than the sampled ones, against exact search."""
    (vectors,) = held.vectors()
    ids = held.ids()
    table, hits = open_table(folder), 0
    questions = np.random.default_rng(6).standard_normal((50, 32)).astype(np.float32)
    for question in questions:
        best = {ids[int(row)] for row in np.argsort(-(vectors @ question))[:10]}
        hits += len(best & set(nearest(table, question, 10, search)["chunk_id"].to_pylist()))
    return hits / 500


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory, HNSW)


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _built(tmp_path_factory, IVF_PQ)


def _built(folders: pytest.TempPathFactory, recipe: IndexRecipe) -> Path:
    folder = folders.mktemp(recipe.search)
    assert build(folder, rows(), recipe=recipe) == read_facts(folder)
    return folder


@pytest.mark.parametrize(("kind", "index_type"), [("graphs", "IvfHnswSq"), ("partitioned", "IvfPq")])
def test_parameters_are_chosen_that_find_enough(
    kind: str, index_type: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    search = read_facts(folder).search
    assert search.kind == {"graphs": "hnsw", "partitioned": "ivf_pq"}[kind]
    assert search.recall >= RECALL
    assert recall(folder, rows(), search) >= RECALL - 0.05
    (index,) = (i for i in open_table(folder).list_indices() if i.columns == ["vector"])
    assert index.index_type == index_type


def test_of_vectors_that_lie_in_clusters_few_partitions_are_looked_into(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    centres = np.repeat(np.eye(32, dtype=np.float32)[:12], 100, axis=0)
    vectors = centres + 0.1 * random.standard_normal((COUNT, 32)).astype(np.float32)
    given = frame([{"chunk_id": f"{n:05}", "text": ""} for n in range(COUNT)], CHUNKS)
    clustered = HeldRows(given, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    many = HNSW.model_copy(update={"partitions": 8})
    search = build(tmp_path, clustered, recipe=many).search
    assert search.nprobes in {1, 2, 4}
    assert search.recall >= AIM
    assert build(tmp_path, clustered, recipe=HNSW).search.nprobes == 2, "all of two"


def test_given_parameters_are_kept_and_their_recall_is_told(tmp_path: Path) -> None:
    poor = IndexRecipe(search="ivf_pq", partitions=40, nprobes=1, refine_factor=1)
    facts = build(tmp_path, rows(), recipe=poor)
    assert (facts.search.nprobes, facts.search.refine_factor, facts.search.ef) == (1, 1, None)
    assert facts.search.recall < 0.6
    assert abs(recall(tmp_path, rows(), facts.search) - facts.search.recall) < 0.3


@pytest.mark.parametrize("aim", [0.3, 0.97, 1.1], ids=["the first reaches it", "a later", "none"])
def test_the_cheapest_that_reaches_the_aim_is_chosen_or_the_best(
    partitioned: Path, aim: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_table, "AIM", aim)
    monkeypatch.setattr(index_table, "SAMPLE", 20)
    monkeypatch.setattr(index_table, "_BATCH", 5)
    table, held, tried = open_table(partitioned), rows(), []
    (vectors,) = held.vectors()
    queries = sample(held)
    tenth = np.sort(queries @ vectors.T, axis=1)[:, -10]
    for share, refine in ((1, 10), (2, 30), (4, 100), (8, 300), (8, 1_000)):
        found = 0
        for query, bound in zip(queries, tenth, strict=True):
            told = nearest(table, query, 10, SearchParameters("ivf_pq", None, share, refine))
            found += sum(1 - told["_distance"].to_numpy() >= bound - 1e-5)
        tried.append((found / 200, share, refine))
    expected = next((one for one in tried if one[0] >= aim), max(tried, key=lambda one: one[0]))
    chosen = tune_search(table, held, IVF_PQ)
    assert (chosen.recall, chosen.nprobes, chosen.refine_factor) == (round(expected[0], 4), *expected[1:])


def test_questions_are_near_stored_vectors_and_always_the_same() -> None:
    held = rows()
    (vectors,) = held.vectors()
    questions = sample(held)
    assert questions.shape == (100, 32)
    assert np.allclose(np.linalg.norm(questions, axis=1), 1)
    nearest_cosines = (questions @ vectors.T).max(axis=1)
    assert 0.75 < nearest_cosines.mean() < 0.85
    assert np.array_equal(questions, sample(rows()))


def test_questions_of_long_vectors_are_as_far_away() -> None:
    """What a model without normalising gives may be of any length; the noise is told by the cosine."""
    held = rows()
    (vectors,) = held.vectors()
    chunks = frame([{"chunk_id": f"{n:05}", "text": ""} for n in range(COUNT)], CHUNKS)
    assert np.allclose(sample(HeldRows(chunks, vectors * np.float32(12))), sample(held), atol=1e-6)


def test_a_small_corpus_and_one_below_the_bound_are_searched_exactly(tmp_path: Path) -> None:
    assert build(tmp_path, rows(count=999), recipe=HNSW).search == SearchParameters()
    assert build(tmp_path, rows(), recipe=IndexRecipe(exact_below=COUNT + 1)).search == SearchParameters()
    assert all(index.columns != ["vector"] for index in open_table(tmp_path).list_indices())
    facts = build(tmp_path, rows(), recipe=IndexRecipe(exact_below=COUNT, ef_construction=60))
    assert facts.search.kind == "hnsw"


def upserted(folder: Path, recipe: IndexRecipe, *parts: HeldRows) -> list[IndexFacts]:
    made: list[IndexFacts] = []
    previous = None
    for number, part in enumerate(parts):
        (new := folder / str(number)).mkdir()
        made.append(build(new, part, recipe=recipe, previous=previous))
        previous = new
    return made


@pytest.mark.parametrize(
    ("recipe", "scanned"),
    [(HNSW, 150), (HNSW, 5_000), (IVF_PQ, 150)],
    ids=["hnsw indexed", "hnsw scanned", "ivf_pq indexed"],
)
def test_an_upsert_adds_to_the_vector_index(
    recipe: IndexRecipe, scanned: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New rows are found whether they are in the index already or compared beside it."""
    monkeypatch.setattr(index_table, "MAX_SCANNED", scanned)
    monkeypatch.setattr(index_table, "SAMPLE", 40)
    parts = [rows(0), rows(100), rows(200)]  # each lacks 100 and adds 100 of 1,200
    made = upserted(tmp_path, recipe, *parts)
    assert [facts.made for facts in made] == ["whole", "upsert", "upsert"]
    for number, (facts, part) in enumerate(zip(made, parts, strict=True)):
        folder = tmp_path / str(number)
        assert facts.search.recall >= RECALL
        assert recall(folder, part, facts.search) >= RECALL - 0.05
        table = open_table(folder)
        (index,) = (i for i in table.list_indices() if i.columns == ["vector"])
        assert index.num_unindexed_rows == (100 * number if scanned == 5_000 else [0, 100, 0][number])
        (vectors,) = part.vectors()
        new = nearest(table, vectors[-1], 1, facts.search)
        assert new["chunk_id"].to_pylist() == [f"{100 * number + COUNT - 1:05}"]


def test_an_index_that_grows_over_the_bound_and_back_changes_its_kind(tmp_path: Path) -> None:
    recipe = IndexRecipe(exact_below=COUNT, ef_construction=60)
    made = upserted(tmp_path, recipe, rows(0, COUNT - 1), rows(0, COUNT), rows(1, COUNT - 1))
    assert [(facts.made, facts.search.kind) for facts in made] == [
        ("whole", "exact"),
        ("upsert", "hnsw"),
        ("upsert", "exact"),
    ]
    kinds = [{i.index_type for i in open_table(tmp_path / n).list_indices()} for n in "012"]
    assert ["IvfHnswSq" in found for found in kinds] == [False, True, False]


def test_a_filter_comes_before_the_search(graphs: Path) -> None:
    (vectors,) = rows().vectors()
    found = nearest(open_table(graphs), vectors[0], 40, read_facts(graphs).search, "doc_id = '3'")
    assert len(found) == 40
    assert all(int(chunk_id) % 4 == 3 for chunk_id in found["chunk_id"].to_pylist())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"search": "annoy"}, "'auto', 'exact', 'hnsw' or 'ivf_pq'"),
        ({"exact_below": -1}, "greater than or equal to 0"),
        ({"ef": 9}, "greater than or equal to 10"),
        ({"m": 3}, "greater than or equal to 4"),
        ({"nprobe": 3}, "Extra inputs are not permitted"),
    ],
)
def test_bad_recipes_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        IndexRecipe.model_validate(given)


def test_every_parameter_is_part_of_the_identity() -> None:
    default = IndexRecipe()
    changes = {"search": "hnsw", "exact_below": 1, "partitions": 2, "m": 8, "ef": 50, "nprobes": 3}
    found = {default.model_copy(update={name: value}).identity() for name, value in changes.items()}
    assert len(found | {default.identity()}) == 7
