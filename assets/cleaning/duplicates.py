"""Finds exact duplicates by their text and near duplicates by MinHash, verified by exact Jaccard similarity.

Broder, On the resemblance and containment of documents, 1997 (shingles, MinHash); Leskovec, Rajaraman and
Ullman, Mining of Massive Datasets, 3.4 (banding): two documents of similarity s share one of b bands of r
rows with probability 1 - (1 - s^r)^b.
"""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from rag_assay.warehouse.identity import sha256_text
from rag_assay.warehouse.parquet import frame

if TYPE_CHECKING:
    import numpy.typing as npt

Keys: TypeAlias = "npt.NDArray[np.uint64]"
Numbers: TypeAlias = "npt.NDArray[np.int64]"
_FACTOR = 0x9E3779B97F4A7C15  # odd: no word of an n-gram is lost by the multiplication
_KEYS_HELD = 8_192  # documents whose keys are written at once
ALONE = -1


class Bands:
    """The band keys of documents, one file per band, eight bytes per document in each."""

    def __init__(self, folder: Path, bands: int, rows: int) -> None:
        self._folder, self._shape = folder, (bands, rows)
        self._keys: list[Keys] = []

    def add(self, signature: Keys) -> None:
        bands, rows = self._shape
        parts = signature[: bands * rows].reshape(bands, rows)
        keys = np.zeros(bands, np.uint64)
        for row in range(rows):
            keys = keys * _FACTOR + parts[:, row]
        self._keys.append(keys)
        if len(self._keys) == _KEYS_HELD:
            self._write()

    def _write(self) -> None:
        if self._keys:
            for band, keys in enumerate(np.stack(self._keys, axis=1)):
                with (self._folder / f"{band}.keys").open("ab") as file:
                    file.write(keys.tobytes())
        self._keys = []

    def groups(self) -> tuple[Numbers, Numbers]:
        """Return the numbers of the documents that share a key with another, ascending, shape (n,), and their
        groups in each band, shape (n, bands); ALONE where no other shares the key.
        """
        self._write()
        found: list[tuple[Numbers, Numbers]] = []
        first = 0
        for band in range(self._shape[0]):
            path = self._folder / f"{band}.keys"
            keys = np.fromfile(path, np.uint64) if path.exists() else np.zeros(0, np.uint64)
            _, places, sizes = np.unique(keys, return_inverse=True, return_counts=True)
            shared = np.flatnonzero(sizes[places] > 1)
            found.append((shared, places[shared] + first))
            first += len(sizes)
        members = np.unique(np.concatenate([shared for shared, _ in found]))
        groups = np.full((len(members), len(found)), ALONE, np.int64)
        for band, (shared, numbers) in enumerate(found):
            groups[np.searchsorted(members, shared), band] = numbers
        return members, groups


CODE_VERSION = "2"
SHINGLE = 5  # words
PERMUTATIONS = 128
MISSED = 1e-4  # probability at most that a pair of exactly the threshold's similarity shares no band
_HELD = 512  # shingle sets of kept documents in memory
_REMEMBERED = 500_000  # words whose hash is remembered: some 60 MB
_BATCH = 4096  # shingles: 4096 x 128 x 8 bytes = 4 MB at once

_WORD = re.compile(r"\w+")


def find_duplicates(
    documents: pl.DataFrame, threshold: float | None, scratch: Path | None = None
) -> pl.DataFrame:
    """Link every copy to its first copy; return `schemas.DUPLICATES`, sorted by id. By date of publication
    (undated last), then URL, each is linked to the first earlier one that is no copy and similar enough.
    """
    from rag_assay.warehouse.schemas import DUPLICATES, UTC_TIME

    moments = pl.Series("moment", [_moment(text) for text in documents["published_at"]], UTC_TIME)
    ordered = (
        documents.select("doc_id", "url", "text")
        .with_columns(moments)
        .sort("moment", "url", "doc_id", nulls_last=True)
    )
    texts = (bytes.fromhex(sha256_text(normalize_text(text))) for text in ordered["text"])
    digests = np.fromiter(texts, "S32", len(ordered))
    _, firsts, places = np.unique(digests, return_index=True, return_inverse=True)
    docs, first = ordered["doc_id"], firsts[places]
    copies = np.flatnonzero(first != np.arange(len(first)))
    links = {docs[number]: _Link(docs[int(first[number])], 1.0, True) for number in copies.tolist()}
    if threshold is not None:
        near = _near(ordered.filter(~pl.col("doc_id").is_in(list(links))), threshold, scratch)
        # Where the first of several exact copies is a near copy of another document, all of them are.
        links = {doc: near.get(link.first, link) for doc, link in links.items()} | near
    rows: list[dict[str, object]] = [
        {"doc_id": doc, "duplicate_of": link.first, "similarity": link.similarity, "exact": link.exact}
        for doc, link in sorted(links.items())
    ]
    return frame(rows, DUPLICATES)


class _Link(NamedTuple):
    first: str
    similarity: float
    exact: bool


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def normalize_text(text: str) -> str:
    """Return a text as it is compared.

    >>> normalize_text("  The\\u00a0Ferry\\nleaves ")
    'the ferry leaves'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# ------------------------------------------------------------------------------------------- near copies


def _near(ordered: pl.DataFrame, threshold: float, scratch: Path | None) -> dict[str, _Link]:
    """Link documents in their order to the first kept one that is similar enough; only those that share a
    band are compared, and only with kept ones.
    """
    ids, texts = ordered["doc_id"], ordered["text"]
    words = _Words()
    held: OrderedDict[int, Keys] = OrderedDict()

    def shingles_of(number: int) -> Keys:
        if number not in held:
            held[number] = words.shingles(texts[number])
        held.move_to_end(number)
        while len(held) > _HELD:
            held.popitem(last=False)
        return held[number]

    numbers, groups = _possible_copies(texts, words, threshold, scratch)
    kept: dict[int, list[int]] = {}  # group -> its documents that are no copies
    links: dict[str, _Link] = {}
    for number, bands in zip(numbers.tolist(), groups, strict=True):
        hashes = shingles_of(number)
        shared = bands[bands != ALONE].tolist()
        for other in sorted({other for group in shared for other in kept.get(group, ())}):
            similarity = jaccard(hashes, shingles_of(other))
            if similarity >= threshold:
                links[ids[number]] = _Link(ids[other], similarity, False)
                break
        else:
            for group in shared:
                kept.setdefault(group, []).append(number)
    return links


def _possible_copies(
    texts: pl.Series, words: _Words, threshold: float, scratch: Path | None
) -> tuple[Numbers, Numbers]:
    from datasketch import MinHash

    empty = MinHash(PERMUTATIONS, hashfunc=int, scheme="affine64")  # shingles are hashes already
    some: list[int] = []  # texts that have a shingle
    with TemporaryDirectory(prefix=".bands-", dir=scratch) as folder:
        bands = Bands(Path(folder), *bands_for(threshold))
        for number, text in enumerate(texts):
            hashes = words.shingles(text)
            if len(hashes):
                some.append(number)
                bands.add(_signature(hashes, empty).hashvalues)
        members, groups = bands.groups()
    return np.array(some, np.int64)[members], groups


def _signature(shingles: Keys, empty: Any) -> Any:
    signature = empty.copy()
    for at in range(0, len(shingles), _BATCH):
        signature.update_batch(shingles[at : at + _BATCH].tolist())
    return signature


def bands_for(threshold: float) -> tuple[int, int]:
    """Return the number of bands and of rows in each: the most rows that miss at most MISSED of the pairs.

    There are two bands at least, as in datasketch.

    >>> bands_for(0.9), bands_for(1.0)  # 1 - 0.9^7 = 0.52, and 0.52^18 = 0.000008
    ((18, 7), (2, 64))
    """
    for rows in range(PERMUTATIONS // 2, 1, -1):
        bands = PERMUTATIONS // rows
        if (1 - threshold**rows) ** bands <= MISSED:
            return bands, rows
    return PERMUTATIONS, 1


def jaccard(one: Keys, other: Keys) -> float:
    """Return the size of the intersection over that of the union of two sets, as sorted distinct hashes.

    >>> jaccard(np.array([1, 2, 3], np.uint64), np.array([2, 3, 4], np.uint64))
    0.5
    """
    common = len(np.intersect1d(one, other, assume_unique=True))
    union = len(one) + len(other) - common
    return common / union if union else 0.0


class _Words:
    """Hashes of words; those of many words are remembered."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def shingles(self, text: str) -> Keys:
        words = _WORD.findall(normalize_text(text))
        hashes = np.fromiter(map(self._hash, words), np.uint64, len(words))
        if not len(hashes):
            return hashes
        length = min(SHINGLE, len(hashes))
        grams = np.zeros(len(hashes) - length + 1, np.uint64)
        for position in range(length):
            grams = grams * _FACTOR + hashes[position : position + len(grams)]
        return np.unique(grams)

    def _hash(self, word: str) -> int:
        found = self.known.get(word)
        if found is None:
            if len(self.known) >= _REMEMBERED:
                self.known.clear()
            found = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            self.known[word] = found
        return found
