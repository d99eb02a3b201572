"""Every embedder is held to one contract, which is itself proved against embedders that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.embedding.api import ApiEmbedder
from rag_assay.assets.embedding.cached_embedder import CachedEmbedder
from rag_assay.assets.embedding.embedder import Api, Embedder, EmbedderRecipe, Matrix
from rag_assay.assets.embedding.hashing import HashedWords, Hashing
from rag_assay.assets.embedding.local import LocalEmbedder, has_bf16
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.openai_server import FakeOpenAI, embeddings

MINILM = "all-MiniLM-L6-v2"
TEXTS = (
    "The ferry leaves the harbour at noon.",
    "noon",
    "Der Fährhafen schließt im Winter um achtzehn Uhr, und das gilt auch an Feiertagen.",
    "Tickets are sold on the quay in the morning; children under six travel without one.",
    "12 % of 85 TJ; Art. 5(2) applies.",
)
GARBAGE = (
    "",
    " \n\t",
    "🛳️🛳️🛳️ 漢字とかな",
    "עברית עם english",
    "\x00\x07\ufffe",
    "lone \ud800 surrogate",
    "x" * 3000,
    "a\u0301" * 200,
    "\r\n\r\n",
)
LONG = "The ferry to the island runs every forty minutes and carries nineteen cars. " * 4

Make = Callable[..., Embedder]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(respond=embeddings) as fake:
        yield fake


@pytest.fixture(params=["fp32", "bf16", "api"])
def make(request: pytest.FixtureRequest, weights: Callable[[str], Path], server: FakeOpenAI) -> Make:
    """Recipe fields -> an embedder of each kind."""
    folder = weights(MINILM)
    kind: str = request.param

    def made(**fields: object) -> Embedder:
        given: dict[str, object] = {"max_tokens": 32, "overflow": "truncate", **fields}
        if kind == "api":
            api = Api(base=server.api_base, tokenizer=MINILM)
            return ApiEmbedder(EmbedderRecipe(model="openai/any", api=api, **given), folder)  # type: ignore[arg-type]
        if kind == "bf16" and not has_bf16():
            pytest.skip("this machine's processor has no bf16")
        return LocalEmbedder(EmbedderRecipe(model=MINILM, dtype=kind, **given), folder)  # type: ignore[arg-type]

    return made


Check = Callable[[Embedder], None]


def vectors_are_unit_rows_of_floats(embedder: Embedder) -> None:
    vectors = embedder.embed(list(TEXTS))
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def the_same_text_gives_the_same_vector(embedder: Embedder) -> None:
    assert np.array_equal(embedder.embed(list(TEXTS)), embedder.embed(list(TEXTS)))


def company_changes_nothing(embedder: Embedder) -> None:
    """bf16 keeps 8 bits of a number, so that there the sums of a padded batch differ in the third digit."""
    slack = 1e-5 if embedder.recipe.dtype == "fp32" else 1e-2
    together = embedder.embed([*TEXTS, LONG])
    alone = np.concatenate([embedder.embed([text]) for text in [*TEXTS, LONG]])
    assert np.allclose(together, alone, atol=slack)
    backwards = embedder.embed([LONG, *TEXTS[::-1]])[::-1]
    assert np.allclose(together, backwards, atol=slack)
    assert (np.einsum("ij,ij->i", together, alone) > 0.9995).all()


def different_texts_differ(embedder: Embedder) -> None:
    cosines = embedder.embed(list(TEXTS)) @ embedder.embed(list(TEXTS)).T
    assert (cosines - np.eye(len(TEXTS)) < 0.95).all()


def nothing_gives_no_rows(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def any_text_is_embedded(embedder: Embedder) -> None:
    vectors = embedder.embed(list(GARBAGE))
    assert vectors.shape == (len(GARBAGE), embedder.dimensions)
    assert np.isfinite(vectors).all()
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


CHECKS: tuple[Check, ...] = (
    vectors_are_unit_rows_of_floats,
    the_same_text_gives_the_same_vector,
    company_changes_nothing,
    different_texts_differ,
    nothing_gives_no_rows,
    any_text_is_embedded,
)


@pytest.mark.models
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("overflow", ["truncate", "average"])
def test_contract(check: Check, overflow: str, make: Make) -> None:
    check(make(overflow=overflow))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("fields", [{}, {"size": 64, "language": None}], ids=["stems", "words"])
def test_hashed_words(check: Check, fields: dict[str, object]) -> None:
    check(HashedWords(Hashing.model_validate(fields)))


def test_hashed_words_meet_by_their_stems_and_cancel_to_no_zero() -> None:
    ferries, ferry, library = HashedWords(Hashing()).embed(["Ferries!", "the ferry", "a library"])
    assert ferries @ ferry > 0.7 > abs(ferries @ library)
    narrow = HashedWords(Hashing(size=16, language=None, normalise=False))
    words = [f"w{number}" for number in range(64)]
    vectors = narrow.embed([f"{one} {two}" for one, two in pairwise(words)])
    lengths = np.linalg.norm(vectors, axis=1)
    assert (lengths > 0.5).all(), "words of one bucket and opposite signs leave something"
    assert {round(float(length), 3) for length in lengths} <= {1.0, 1.414, 2.0}
    assert narrow.embed(["w1 " * 8])[0].max() - narrow.embed(["w1 " * 8])[0].min() == pytest.approx(
        1 + np.log(8)
    )


@pytest.mark.models
def test_a_long_text_is_refused_cut_or_averaged(make: Make) -> None:
    with pytest.raises(InputError, match=r"1 of 2 texts are longer than the 32 tokens.*longest: 58, special"):
        make(overflow="fail").embed([TEXTS[0], LONG])
    assert make(overflow="fail").embed([TEXTS[0]]).shape[0] == 1, "what fits is embedded"
    cut, mean = make(overflow="truncate"), make(overflow="average")
    # 30 tokens of text fit: two sentences of 14, and two words of the next.
    words = " ".join(LONG.split()[:28])
    assert np.allclose(cut.embed([LONG]), cut.embed([words]), atol=1e-2)
    assert not np.allclose(mean.embed([LONG]), cut.embed([LONG]), atol=1e-2)


@pytest.mark.models
def test_without_normalising_only_the_length_differs(make: Make) -> None:
    raw, unit = make(normalise=False).embed(list(TEXTS)), make().embed(list(TEXTS))
    assert np.allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), unit, atol=1e-5)


@pytest.mark.models
def test_a_prefix_is_part_of_what_is_embedded(make: Make, tmp_path: Path) -> None:
    embedder = make(query_prefix="query: ", passage_prefix="passage: ")
    cached = CachedEmbedder(embedder.recipe, Home(tmp_path))
    for side, found in (("query: ", cached.queries(TEXTS)), ("passage: ", cached.passages(TEXTS))):
        expected = embedder.embed([side + text for text in TEXTS])
        assert np.allclose(found.vectors, expected, atol=1e-5 if embedder.recipe.dtype == "fp32" else 1e-2)
        assert not np.allclose(found.vectors, embedder.embed(list(TEXTS)), atol=1e-2)


# --- the suite itself: each of these breaks one promise, and some check must notice ------------------------


@dataclass
class Sound:
    """A vector of a text's letters: keeps every promise."""

    recipe: EmbedderRecipe = field(default_factory=lambda: EmbedderRecipe(model=MINILM, overflow="truncate"))
    dimensions: int = 512

    def embed(self, texts: Sequence[str]) -> Matrix:
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            rows[row, 0] = 1e-3
            for one, two in pairwise(text):
                rows[row, (ord(one) * 31 + ord(two)) % self.dimensions] += 1
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


class Long(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        return super().embed(texts) * np.float32(2)


class Doubles(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        return super().embed(texts).astype(np.float64)  # type: ignore[return-value]


class Sorts(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        return super().embed(sorted(texts))


class Drifts(Sound):
    calls = 0

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.calls += 1
        return super().embed([text + str(self.calls) for text in texts])


class Mixes(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        found = super().embed(texts)
        mixed = found + (found.mean(axis=0) if len(found) else 0)
        return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True), np.float32)


class SaysTheSame(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        return super().embed(["same"] * len(texts))


class NeedsText(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        found = super().embed(texts)
        found[[not text.strip() for text in texts]] = np.nan
        return found


class Flat(Sound):
    def embed(self, texts: Sequence[str]) -> Matrix:
        return super().embed(texts) if texts else np.zeros((0, 0), np.float32)


def test_the_suite_passes_a_sound_embedder() -> None:
    for check in CHECKS:
        check(Sound())


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Long, vectors_are_unit_rows_of_floats),
        (Doubles, vectors_are_unit_rows_of_floats),
        (Sorts, company_changes_nothing),
        (Drifts, the_same_text_gives_the_same_vector),
        (Mixes, company_changes_nothing),
        (SaysTheSame, different_texts_differ),
        (NeedsText, any_text_is_embedded),
        (Flat, nothing_gives_no_rows),
    ],
    ids=lambda value: value.__name__,
)
def test_the_suite_notices(broken: type[Sound], check: Check) -> None:
    with pytest.raises(AssertionError):
        check(broken())
