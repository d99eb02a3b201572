"""Embeds through the vector cache: each distinct text is computed once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rag_assay.assets.embedding.api import ApiEmbedder, refuse_another_model
from rag_assay.assets.embedding.component_embedders import OtherEmbedder
from rag_assay.assets.embedding.embedder import Embedder, EmbedderRecipe, Matrix
from rag_assay.assets.embedding.local import LocalEmbedder
from rag_assay.assets.embedding.numpy_bert import FEW, quick_embedder
from rag_assay.assets.embedding.windows import count_tokens, refuse_long
from rag_assay.assets.tokenization.tokenizer import Ints, Tokenizer, load_tokenizer
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.inference.ordered_map import side_by_side
from rag_assay.warehouse.inference.throttle import AT_ONCE
from rag_assay.warehouse.segments import UNKNOWN
from rag_assay.warehouse.vectors import VectorCache

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.models import Progress
    from rag_assay.warehouse.paths import Home

FLUSH = 256  # texts a segment, unless more are computed together
FLUSH_SECONDS = 5.0  # after which what is finished is kept, however few they are: what a kill can cost
STEP = 64  # texts between two words of progress, unless more are computed together or they take too long

CountProgress = Callable[[int, int], None]


class Embedded(NamedTuple):
    """Vectors in the order of the texts, shape (texts, dimensions), and how many had to be computed."""

    vectors: Matrix
    computed: int


class CachedEmbedder:
    """An embedder whose weights are loaded only for new texts. One object serves one thread."""

    def __init__(self, recipe: EmbedderRecipe, home: Home, say: Progress | None = None) -> None:
        self.recipe = recipe
        self.home = home
        self._say = say
        self._recognised = False  # an api's model as the one whose vectors are kept
        self._step = self._together  # texts; of a slow model as few as can be, so that a kill costs few

    @property
    def embedder(self) -> Embedder:
        folder = self.recipe.tokenizer_folder(self.home, self._say)
        recipe = self.recipe.model_copy(update={"similarities": False})
        loaded = _loaded(recipe, str(folder or ""), self._weights)
        if isinstance(loaded, ApiEmbedder) and not self._recognised:
            refuse_another_model(loaded, self.cache)
            self._recognised = True
        return loaded

    @cached_property
    def _weights(self) -> str:
        return "" if self.recipe.api else self.recipe.weights_identity()

    @cached_property
    def cache(self) -> VectorCache:
        return VectorCache(self.home, self.recipe.revision())

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        folder = self.recipe.tokenizer_folder(self.home, self._say)
        return load_tokenizer(folder) if folder else None

    @cached_property
    def query_prefix(self) -> str:
        return self.recipe.prefix("query", self.home)

    @cached_property
    def passage_prefix(self) -> str:
        return self.recipe.prefix("passage", self.home)

    def passages(self, texts: Sequence[str], progress: CountProgress | None = None) -> Embedded:
        return self.embed([self.passage_prefix + text for text in texts], progress)

    def queries(self, texts: Sequence[str]) -> Embedded:
        return self.embed([self.query_prefix + text for text in texts])

    def token_counts(self, texts: Sequence[str], hashes: Sequence[str]) -> Ints | None:
        """Return the tokens of prefixed texts, special tokens included, shape (texts,); None if they cannot
        be counted. Counts are cached, except for an `api`, whose tokenizer may change.
        """
        if self.tokenizer is None:
            return None
        if self.recipe.api is not None:
            return np.array(count_tokens(texts, self.tokenizer), np.int64)
        counts = self.cache.tokens(hashes).astype(np.int64)
        new = np.flatnonzero(counts == UNKNOWN)
        counts[new] = count_tokens([texts[at] for at in new.tolist()], self.tokenizer)
        return counts

    def embed(self, texts: Sequence[str], progress: CountProgress | None = None) -> Embedded:
        """Embed texts that are already prefixed, each distinct one once. Results are stored after every FLUSH
        texts and FLUSH_SECONDS. Processes that embed the same texts share the work.
        """
        if not texts:
            return Embedded(np.zeros((0, 0), np.float32), 0)
        texts = all_encodable(texts)
        hashes = [sha256_text(text) for text in texts]
        found = self.cache.take(hashes)
        missing = {hashes[at]: texts[at] for at in np.flatnonzero(~found.known).tolist()}
        if not missing:
            return Embedded(found.vectors, 0)
        new, computed = self._compute(missing, progress)
        vectors = found.vectors if found.known.any() else np.zeros((len(texts), new.shape[1]), np.float32)
        rows = {key: row for row, key in enumerate(missing)}
        lacking = np.flatnonzero(~found.known)
        vectors[lacking] = new[[rows[hashes[at]] for at in lacking.tolist()]]
        return Embedded(vectors, computed)

    def _compute(self, missing: dict[str, str], progress: CountProgress | None) -> tuple[Matrix, int]:
        keys, texts = list(missing), list(missing.values())
        counts = self.token_counts(texts, keys)
        lengths = np.array([len(text) for text in texts]) if counts is None else counts
        # Texts of like length share a batch, so that little is padded.
        order = np.lexsort((np.array(keys), lengths))
        flush = max(FLUSH, self._together)
        batches = [order[at : at + flush] for at in range(0, len(order), flush)]
        # Short and long batches by turns, so that the time left can be foretold from the time gone.
        todo = [batches[number] for number in np.random.default_rng(0).permutation(len(batches)).tolist()]
        vectors: Matrix | None = None
        done = computed = 0
        while todo:
            elsewhere: list[Ints] = []
            for batch in todo:
                with self.cache.claim([keys[at] for at in batch.tolist()]) as free:
                    mine = batch[free]
                    part, fresh = self._batch(mine, keys, texts, counts, _shifted(progress, done, len(keys)))
                if len(mine):
                    vectors = np.zeros((len(keys), part.shape[1]), np.float32) if vectors is None else vectors
                    vectors[mine] = part
                done, computed = done + len(mine), computed + fresh
                elsewhere.append(batch[~free])
            todo = [batch for batch in elsewhere if len(batch)]
            # What other processes compute is taken from them; where one was killed, it is computed here.
            self.cache.wait_for([keys[at] for batch in todo for at in batch.tolist()])
        assert vectors is not None  # noqa: S101 -- there is a batch
        if progress:
            progress(len(keys), len(keys))
        return vectors, computed

    def _batch(
        self, batch: Ints, keys: list[str], texts: list[str], counts: Ints | None, tell: Callable[[int], None]
    ) -> tuple[Matrix, int]:
        there = self.cache.take([keys[at] for at in batch.tolist()])
        rows = np.flatnonzero(~there.known)
        if not len(rows):
            return there.vectors, 0
        compute = self._keep_computing if self.recipe.api is None else self._keep_asking
        new = compute(batch[rows], keys, texts, counts, lambda done: tell(len(batch) - len(rows) + done))
        result = there.vectors if there.known.any() else np.zeros((len(batch), new.shape[1]), np.float32)
        result[rows] = new
        return result, len(rows)

    def _keep_asking(
        self, rows: Ints, keys: list[str], texts: list[str], counts: Ints | None, tell: Callable[[int], None]
    ) -> Matrix:
        """Let a server compute the vectors of some rows, by several requests at once. Each reply is stored as
        soon as it arrives, whatever becomes of the others: it was paid for.
        """
        size = self.recipe.batch_size
        parts = [rows[at : at + size] for at in range(0, len(rows), size)]
        lock = threading.Lock()
        tell(0)
        self.embedder  # noqa: B018 -- asked which model it is before the others begin

        def ask(part: Ints) -> Matrix:
            vectors = self._vectors([texts[at] for at in part.tolist()], len(keys))
            tokens = None if counts is None else counts[part].astype(np.int32)
            with lock:
                self.cache.put([keys[at] for at in part.tolist()], vectors, tokens)
            return vectors

        found: list[Matrix] = []
        for vectors in side_by_side(ask, parts, AT_ONCE):
            found.append(vectors)
            tell(sum(map(len, found)))
        return np.concatenate(found)

    def _keep_computing(
        self, rows: Ints, keys: list[str], texts: list[str], counts: Ints | None, tell: Callable[[int], None]
    ) -> Matrix:
        parts: list[Matrix] = []
        done = kept = 0

        def keep() -> None:
            nonlocal kept
            if done > kept:
                part, kept_before, kept = rows[kept:done], kept, done
                tokens = None if counts is None else counts[part].astype(np.int32)
                vectors = np.concatenate(parts)[kept_before:]
                self.cache.put([keys[at] for at in part.tolist()], vectors, tokens)

        begin = time.monotonic()
        try:
            while done < len(rows):
                tell(done)
                step = rows[done : done + self._step].tolist()
                parts.append(self._timed([texts[at] for at in step], len(keys)))
                done += len(step)
                if time.monotonic() - begin >= FLUSH_SECONDS:
                    keep()
                    begin = time.monotonic()
        finally:  # what came before a failure is kept too
            keep()
        return np.concatenate(parts)

    @property
    def _together(self) -> int:
        return self.recipe.batch_size * (AT_ONCE if self.recipe.api is not None else 1)

    def _timed(self, texts: list[str], of: int) -> Matrix:
        """Compute vectors, and set how many texts are computed in the next step by how long it took."""
        begin = time.monotonic()
        vectors = self._vectors(texts, of)
        in_time = int(len(texts) * FLUSH_SECONDS / max(time.monotonic() - begin, 1e-9))
        most = max(STEP, self._together)
        self._step = max(self._together, min(most, in_time // self._together * self._together))
        return vectors

    def _vectors(self, texts: list[str], of: int) -> Matrix:
        quick = quick_embedder(self.recipe, self.home) if of <= FEW else None
        if quick is None:
            vectors = self.embedder.embed(texts)
        else:
            if self.recipe.overflow == "fail" and self.tokenizer is not None:
                refuse_long(texts, self.recipe, self.tokenizer)
            vectors = quick.embed(texts)
        if not np.isfinite(vectors).all():
            raise AssayError(
                f"embedder {self.recipe.model}: it gave a vector with a number that is not finite "
                f"(dtype: {self.recipe.dtype}); nothing of it was kept"
            )
        return vectors


def _shifted(progress: CountProgress | None, begin: int, of: int) -> Callable[[int], None]:
    return lambda done: progress(begin + done, of) if progress else None


@lru_cache(maxsize=3)
def _loaded(recipe: EmbedderRecipe, folder: str, identity: str) -> Embedder:
    """Load an embedder; with other weights it is another one, for the files of a folder may be replaced."""
    if isinstance(recipe, OtherEmbedder):
        return recipe.load()
    where = Path(folder) if folder else None
    if recipe.api is not None:
        return ApiEmbedder(recipe, where)
    assert where is not None  # noqa: S101 -- only an api has none
    return LocalEmbedder(recipe, where, identity)
