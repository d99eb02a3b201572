from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assets.chunking.tokens import token_windows
from assets.embedding import cached
from assets.embedding.cached import CachedEmbedder
from assets.embedding.embedder import Embedder, EmbedderRecipe
from assets.embeddings import Embeddings
from assets.merging import Build
from assets.stage import Work, build_key
from warehouse.artifacts import Artifact
from warehouse.errors import InputError
from warehouse.parquet import frame, read_parquet, write_parquet
from warehouse.paths import Home
from warehouse.schemas import CHUNKS

pytestmark = pytest.mark.models
MINILM = "all-MiniLM-L6-v2"
TEXTS = [
    "A mooring costs twelve pounds.",
    "Der Fährplan gilt ab Montag.",
    "ferry",
    "A mooring costs twelve pounds.",
]
LONG = "The ferry to the island runs every forty minutes and carries nineteen cars. " * 5


@pytest.fixture(scope="module")
def folder(weights: Callable[[str], Path]) -> Path:
    return weights(MINILM)


@pytest.fixture(scope="module")
def plain(folder: Path) -> Embedder:
    return Embedder(EmbedderRecipe(model=MINILM), folder)


def close(one: object, other: object) -> bool:
    return bool(np.allclose(np.asarray(one), np.asarray(other), atol=1e-5))


def test_vectors_have_length_1_and_say_what_texts_are_alike(plain: Embedder) -> None:
    vectors = plain.embed([*TEXTS, "The price of a berth is 12 pounds."])
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, 384)
    assert close(np.linalg.norm(vectors, axis=1), 1)
    assert close(vectors[0], vectors[3])
    assert vectors[0] @ vectors[4] > 0.5 > vectors[1] @ vectors[4]
    assert plain.embed([]).shape == (0, 384)


def test_truncating_is_leaving_out_the_end(folder: Path, plain: Embedder) -> None:
    short = Embedder(EmbedderRecipe(model=MINILM, max_tokens=16, overflow="truncate"), folder)
    (first, *_) = token_windows(LONG, short.tokenizer, short.room)
    assert (short.room, first.n_tokens) == (14, 14)
    assert close(short.embed([LONG]), plain.embed([LONG[first.start : first.end]]))
    assert not close(short.embed([LONG]), plain.embed([LONG]))


def test_averaging_is_the_mean_of_windows_weighted_by_their_tokens(folder: Path, plain: Embedder) -> None:
    average = Embedder(EmbedderRecipe(model=MINILM, max_tokens=32, overflow="average"), folder)
    text = "one two three four five six seven eight nine ten " * 4 + "eleven"  # 41 words of one token
    spans = token_windows(text, average.tokenizer, 30)
    assert [span.n_tokens for span in spans] == [30, 11]
    first, second = plain.embed([text[span.start : span.end] for span in spans])
    mean = (30 * first + 11 * second) / 41
    assert close(average.embed([text, "ferry"]), [mean / np.linalg.norm(mean), plain.embed(["ferry"])[0]])


def test_recipes_that_share_weights_keep_their_own_limits(folder: Path) -> None:
    long = Embedder(EmbedderRecipe(model=MINILM, max_tokens=256), folder)
    before = long.embed([LONG])
    Embedder(EmbedderRecipe(model=MINILM, max_tokens=16, overflow="truncate"), folder).embed([LONG])
    assert close(long.embed([LONG]), before)


def test_more_tokens_than_the_model_has_positions_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="max_tokens is 513, but the model reads 512 tokens at most"):
        Embedder(EmbedderRecipe(model=MINILM, max_tokens=513), folder)


def test_everything_that_changes_a_vector_changes_the_revision() -> None:
    recipe = EmbedderRecipe(model=MINILM)
    changed: list[dict[str, object]] = [
        {"max_tokens": 128},
        {"overflow": "average"},
        {"model": "all-mpnet-base-v2"},
    ]
    revisions = {recipe.model_copy(update=change).revision() for change in [{}, *changed]}
    assert len(revisions) == 4
    assert recipe.model_copy(update={"query_prefix": "query: "}).revision() == recipe.revision(), (
        "part of the text"
    )


def test_an_unknown_model_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"unknown embedding model 'minilm'; known are all-MiniLM-L6-v2"):
        EmbedderRecipe(model="minilm")


def test_the_cache_computes_each_text_once(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    embedder = CachedEmbedder(EmbedderRecipe(model=MINILM), Home(tmp_path))
    heard: list[tuple[int, int]] = []
    first = embedder.passages(TEXTS, lambda done, of: heard.append((done, of)))
    assert first.computed == 3, "one of the four comes twice"
    assert heard == [(0, 3), (3, 3)]
    second = embedder.passages(TEXTS)
    assert second.computed == 0
    assert np.array_equal(first.vectors, second.vectors)
    assert embedder.queries(TEXTS[:1]).computed == 0, "without prefixes a question is a text as any other"
    assert embedder.passages([*TEXTS, "new"]).computed == 1
    other = CachedEmbedder(EmbedderRecipe(model=MINILM, max_tokens=128), Home(tmp_path))
    assert other.passages(TEXTS[:1]).computed == 1, "another revision"
    prefixed = CachedEmbedder(EmbedderRecipe(model=MINILM, passage_prefix="passage: "), Home(tmp_path))
    assert prefixed.passages(TEXTS[:1]).computed == 1
    assert embedder.passages([]).vectors.shape == (0, 0)


def test_vectors_come_in_the_order_of_their_texts(
    tmp_path: Path, plain: Embedder, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights(MINILM)
    monkeypatch.setattr(cached, "FLUSH", 2)
    texts = [LONG[: 7 * n] for n in (9, 1, 30, 4, 17, 2)]
    found = CachedEmbedder(EmbedderRecipe(model=MINILM), Home(tmp_path)).passages(texts)
    assert close(found.vectors, np.concatenate([plain.embed([text]) for text in texts]))
    assert len(list((tmp_path / "cache" / "vectors").glob("*/*.parquet"))) == 3, (
        "a kill costs one batch at most"
    )


# ------------------------------------------------------------------------------------------- the stage


def embedded(tmp_path: Path, recipe: EmbedderRecipe, *texts: str) -> tuple[Embeddings, Work]:
    """The embeddings stage over one set of chunks."""
    build = Build(embedders={"e": recipe}, indexes={"c.t.e": ("c", "t", "e")})
    work = Work(Home(tmp_path))
    rows: list[dict[str, object]] = [
        {"chunk_id": f"c{n}", "text": text, "prefix": ""} for n, text in enumerate(texts)
    ]
    write_parquet(frame(rows, CHUNKS), work.store.folder("chunks", "i") / "chunks.parquet")
    work.store.commit(Artifact("chunks", "c.t", "i", "v"))
    return Embeddings(build), work


def test_chunks_that_are_too_long_are_refused_with_their_numbers(
    tmp_path: Path, weights: Callable[[str], Path]
) -> None:
    weights(MINILM)
    stage, work = embedded(
        tmp_path, EmbedderRecipe(model=MINILM, max_tokens=16), "short", "one two " * 7, LONG
    )
    outcome = build_key(stage, "c.t.e", work)
    assert outcome.artifact is None
    assert outcome.error is not None
    n_tokens = 14 * 5 + 2  # 13 words and a full stop, five times, with [CLS] and [SEP]
    assert "1 of 3 chunks are longer than the 16 tokens that the embedder reads" in outcome.error, (
        "14 + 2 fit"
    )
    assert f"(longest: {n_tokens}, special tokens included)" in outcome.error
    assert "`overflow: truncate` or `overflow: average`" in outcome.error


def test_the_stage_stores_a_vector_a_chunk(tmp_path: Path, weights: Callable[[str], Path]) -> None:
    weights(MINILM)
    recipe = EmbedderRecipe(model=MINILM, max_tokens=16, overflow="truncate")
    stage, work = embedded(tmp_path, recipe, "short", LONG, "short")
    outcome = build_key(stage, "c.t.e", work)
    assert outcome.ok, outcome.error
    assert outcome.artifact is not None
    meta = outcome.artifact.meta
    assert (meta["chunks"], meta["embedded_now"], meta["from_cache"], meta["too_long"]) == (3, 2, 0, 1)
    rows = read_parquet(work.store.folder("embeddings", outcome.artifact.identity) / "embeddings.parquet")
    assert rows["chunk_id"].to_list() == ["c0", "c1", "c2"]
    assert rows["vector"].to_numpy().shape == (3, 384)
    assert not build_key(stage, "c.t.e", work).computed
