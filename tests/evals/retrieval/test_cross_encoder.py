"""With a real cross-encoder that is tiny and untrained: what counts is which pairs it is asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.evals.retrieval.cross_encoder import CrossEncoder, load
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.retrieval.ranking import Ranking
from rag_assay.warehouse.errors import InputError
from tests.fakes.cross_encoder import POSITIONS, build_cross_encoder, build_roberta
from tests.fakes.indexing import applied, build_index, query

TEXTS = (
    "The ferry leaves. Tickets cost two pounds.",
    "Oil burns in a lamp.",
    "The quay is old.",
    "Ice is cold.",
)
GIVEN = Ranking(np.arange(4), np.array([4.0, 3.0, 2.0, 1.0]))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> OpenIndex:
    return build_index(tmp_path_factory.mktemp("index"), TEXTS)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(build_cross_encoder(tmp_path_factory.mktemp("model"), TEXTS))


def scores_of(model: str, pairs: list[tuple[str, str]]) -> list[float]:
    from sentence_transformers import CrossEncoder as Model

    return [float(score) for score in Model(model, max_length=POSITIONS).predict(pairs)]


def test_scores_are_those_of_the_model(index: OpenIndex, model: str) -> None:
    found = applied(CrossEncoder(model=model, max_length=POSITIONS), GIVEN, query("old ferry"), index)
    expected = scores_of(model, [("old ferry", text) for text in TEXTS])
    assert found.scores == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert found.rows.tolist() == sorted(range(4), key=lambda row: -expected[row])


@pytest.mark.parametrize(("pool", "of"), [("max", max), ("mean", lambda values: sum(values) / len(values))])
def test_sentences_are_pooled(index: OpenIndex, model: str, pool: str, of: object) -> None:
    step = CrossEncoder.model_validate(
        {"model": model, "over": "sentences", "pool": pool, "max_length": POSITIONS}
    )
    found = applied(step, GIVEN, query("old ferry"), index)
    two = scores_of(model, [("old ferry", s) for s in ("The ferry leaves.", "Tickets cost two pounds.")])
    assert dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))[0] == pytest.approx(
        of(two), abs=1e-5
    )  # type: ignore[operator]


def test_what_comes_after_the_first_n_is_left_out(index: OpenIndex, model: str) -> None:
    found = applied(CrossEncoder(model=model, n=2, max_length=POSITIONS), GIVEN, query("old ferry"), index)
    assert sorted(found.rows.tolist()) == [0, 1]


def test_no_more_is_read_than_the_model_has_places_for(tmp_path: Path, model: str) -> None:
    long = build_index(tmp_path, ["ferry quay " * 80, "The quay is old."])
    two = Ranking(np.arange(2), np.array([2.0, 1.0]))
    found = applied(CrossEncoder(model=model, max_length=512), two, query("old ferry"), long)
    expected = scores_of(model, [("old ferry", text) for text in ("ferry quay " * 80, "The quay is old.")])
    assert found.scores == pytest.approx(sorted(expected, reverse=True), abs=1e-5)


def test_places_after_the_padding_are_counted(tmp_path: Path, index: OpenIndex) -> None:
    """RoBERTa's table of 66 positions begins after its padding, at 2: 64 tokens are the most."""
    robertas = build_roberta(tmp_path / "roberta", TEXTS, positions=66)
    assert load(str(robertas), None, 512).max_seq_length == 64
    long = build_index(tmp_path / "index", ["ferry quay " * 400])
    one = Ranking(np.zeros(1, np.int64), np.ones(1))
    assert len(applied(CrossEncoder(model=str(robertas)), one, query("old ferry"), long)) == 1


def test_torn_weights_are_told(tmp_path: Path) -> None:
    folder = build_cross_encoder(tmp_path / "torn", TEXTS)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1_000])
    with pytest.raises(InputError, match=r"the cross-encoder .* cannot be loaded"):
        load(str(folder), None, 512)


def test_other_weights_are_another_version(tmp_path: Path) -> None:
    first, same, other = (
        CrossEncoder(model=str(build_cross_encoder(tmp_path / name, TEXTS, seed=seed))).versions()
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == same
    assert first != other


def test_what_is_no_cross_encoder(tmp_path: Path, index: OpenIndex) -> None:
    with pytest.raises(ValidationError, match="there is no folder"):
        CrossEncoder(model=str(tmp_path / "nowhere"))
    with pytest.raises(ValidationError, match=r"it has no config\.json"):
        CrossEncoder(model=str(tmp_path))
    with pytest.raises(ValidationError, match="needs its `revision`"):
        CrossEncoder(model="cross-encoder/ms-marco-MiniLM-L-6-v2")
    three = build_cross_encoder(tmp_path / "three", TEXTS, outputs=3)
    with pytest.raises(InputError, match="gives 3 scores"):
        applied(CrossEncoder(model=str(three), max_length=POSITIONS), GIVEN, query("old ferry"), index)
