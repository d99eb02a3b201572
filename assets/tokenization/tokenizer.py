"""An embedder's own tokenizer, without loading its weights."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from unicodedata import east_asian_width

import numpy as np

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import weights

if TYPE_CHECKING:
    import numpy.typing as npt
    from tokenizers import Encoding
    from tokenizers import Tokenizer as RawTokenizer

    from rag_assay.warehouse.paths import Home


Ints: TypeAlias = "npt.NDArray[np.int64]"


class Words(NamedTuple):
    """The words of a text: character offsets, and tokens that add up to those of the text, shape (n,)."""

    starts: Ints
    ends: Ints
    tokens: Ints


def no_words() -> Words:
    empty = np.zeros(0, np.int64)
    return Words(empty, empty, empty)


Flags: TypeAlias = "npt.NDArray[np.bool_]"


def loose_words(encoding: Encoding, text: str) -> Words:
    """Return the words of ``text``, which end where the tokenizer or white space ends one. Letters and
    digits stay together, East Asian characters follow the tokens, tokens of white space belong to the word
    before.
    """
    offsets = np.asarray(encoding.offsets, np.int64).reshape(-1, 2)
    word_ids = np.asarray([-1 if word is None else word for word in encoding.word_ids], np.int64)
    blank = np.fromiter(map(str.isspace, text), bool, len(text))
    places = np.arange(len(blank) + 1)
    inked = np.flatnonzero(~blank)
    following = np.append(inked, len(blank))[np.searchsorted(inked, places)]
    before = np.append(0, inked + 1)[np.searchsorted(inked, places)]
    starts, ends = following[offsets[:, 0]], before[offsets[:, 1]]
    full = np.flatnonzero(starts < ends)
    if not len(full):
        return no_words()
    begins = _begins(starts[full], ends[full], word_ids[full], text, blank)
    owner = np.cumsum(begins) - 1
    # Of each token: its word; one of white space belongs to the word before it, or to the first.
    owners = owner[np.maximum(np.searchsorted(full, np.arange(len(starts)), side="right") - 1, 0)]
    first = np.flatnonzero(begins)
    return Words(
        starts[full][first], np.maximum.reduceat(ends[full], first), np.bincount(owners, minlength=len(first))
    )


def _begins(starts: Ints, ends: Ints, word_ids: Ints, text: str, blank: Flags) -> Flags:
    spaced = (starts == 0) | blank[starts - 1]
    apart = np.diff(word_ids, prepend=word_ids[0] - 1) != 0
    square = np.fromiter((_fills_square(text[at]) for at in starts.tolist()), bool, len(starts))
    reached = np.maximum.accumulate(np.append(0, ends[:-1]))
    within = np.fromiter(
        (text[max(0, at - 1) : at + 1].isalnum() for at in starts.tolist()), bool, len(starts)
    )
    begins = (spaced | (apart & ~within) | square) & (starts >= reached)
    begins[0] = True
    return begins


def _fills_square(sign: str) -> bool:
    return east_asian_width(sign) == "W" and sign.isalpha()


_RUN = re.compile(r"[^ \t\n\r]+")
MEMORY_CHARACTERS = 4_000_000  # of distinct runs that are remembered: some 80 MB


class Tokenizer:
    """Counts and places tokens; ``steady``: a cut between words leaves their tokens as they were."""

    def __init__(self, raw: RawTokenizer) -> None:
        self._raw = raw
        raw.no_truncation()
        raw.no_padding()
        self.special_tokens: int = raw.num_special_tokens_to_add(False)
        self.steady = _splits_at_spaces(raw)
        self._runs = _Runs(raw) if self.steady else None

    def count(self, texts: Sequence[str]) -> list[int]:
        try:
            encodings = self._raw.encode_batch_fast(list(texts), add_special_tokens=False)
        except TypeError:  # lone surrogates, which no tokenizer takes
            encodings = self._raw.encode_batch_fast(list(map(_sound, texts)), add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def words(self, text: str) -> Words:
        sound = _sound(text)
        if self._runs is not None:
            return self._runs.words(sound)
        return loose_words(self._raw.encode(sound, add_special_tokens=False), sound)


class _Runs:
    """Words of texts that are tokenised run by run (between spaces), each distinct one once."""

    def __init__(self, raw: RawTokenizer) -> None:
        self._raw = raw
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}  # run -> its row in `_spans`
        self._characters = 0
        self._spans = _Rows(2)  # of each run: its first row in `_words`, and the row after its last
        self._words = _Rows(3)  # of each word: start and end, from the beginning of its run, and tokens

    def words(self, text: str) -> Words:
        runs = _RUN.findall(text)
        if not runs:
            return no_words()
        with self._lock:
            if self._characters > MEMORY_CHARACTERS:
                self._forget()
            self._learn([run for run in set(runs) if run not in self._numbers])
            rows = np.fromiter(map(self._numbers.__getitem__, runs), np.int64, len(runs))
            first, after = self._spans.values[rows].T
            counts = after - first
            before = np.cumsum(counts) - counts  # words of the text before each run
            known = self._words.values[np.arange(counts.sum()) + np.repeat(first - before, counts)]
        begin = np.repeat(_run_starts(text), counts)
        return Words(begin + known[:, 0], begin + known[:, 1], known[:, 2])

    def _learn(self, runs: list[str]) -> None:
        if not runs:
            return
        # One call for all of them: a batch of so short texts costs more in threads than it gains.
        words = _words_of(self._raw.encode("\n".join(runs), add_special_tokens=False))
        lengths = np.fromiter(map(len, runs), np.int64, len(runs))
        begins = np.cumsum(lengths + 1) - (lengths + 1)
        owner = np.searchsorted(begins, words.starts, side="right") - 1
        counts = np.bincount(owner, minlength=len(runs))
        after = len(self._words) + np.cumsum(counts)
        self._numbers.update(zip(runs, range(len(self._spans), len(self._spans) + len(runs)), strict=True))
        self._characters += int(lengths.sum())
        self._spans.add(np.stack([after - counts, after], axis=1))
        begin = begins[owner]
        self._words.add(np.stack([words.starts - begin, words.ends - begin, words.tokens], axis=1))


class _Rows:
    def __init__(self, columns: int) -> None:
        self._array: Ints = np.zeros((1024, columns), np.int64)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def values(self) -> Ints:
        return self._array[: self._used]

    def add(self, rows: Ints) -> None:
        needed = self._used + len(rows)
        if needed > len(self._array):
            grown = np.zeros((max(needed, 2 * len(self._array)), self._array.shape[1]), np.int64)
            grown[: self._used] = self.values
            self._array = grown
        self._array[self._used : needed] = rows
        self._used = needed


def _sound(text: str) -> str:
    r"""Return a text with its lone surrogates as question marks; every character keeps its place.

    >>> _sound("a\ud800b")
    'a?b'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _words_of(encoding: Encoding) -> Words:
    if not len(encoding):
        return no_words()
    offsets = np.asarray(encoding.offsets, np.int64)
    word_ids = np.asarray([-1 if word is None else word for word in encoding.word_ids], np.int64)
    first = np.flatnonzero(np.diff(word_ids, prepend=word_ids[0] - 1))
    last = np.append(first[1:], len(word_ids)) - 1
    return Words(offsets[first, 0], offsets[last, 1], last - first + 1)


def _run_starts(text: str) -> Ints:
    """Return where the runs of `_RUN` begin, shape (runs,).

    >>> _run_starts(" a  bc")
    array([1, 4])
    """
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    inside = (signs != 0x20) & (signs != 0x09) & (signs != 0x0A) & (signs != 0x0D)
    return np.flatnonzero(inside & ~np.concatenate([[False], inside[:-1]]))


def _splits_at_spaces(raw: RawTokenizer) -> bool:
    spec = json.loads(raw.to_str())
    kinds = [(spec.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer")]
    added = (str(token["content"]) for token in spec.get("added_tokens", ()))
    return kinds == ["BertNormalizer", "BertPreTokenizer"] and not any(re.search(r"\s", one) for one in added)


def load_tokenizer(folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    status = path.stat() if path.is_file() else None
    return _kept(folder, *((status.st_mtime_ns, status.st_size) if status else (0, 0)))


@lru_cache(maxsize=8)
def _kept(folder: Path, _time: int, _size: int) -> Tokenizer:
    return read_tokenizer(folder)


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read a model's `tokenizer.json`; raise `InputError` if there is none, or none that can be read."""
    from tokenizers import Tokenizer as RawTokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path}: the model has no tokenizer.json, which chunking by tokens needs")
    try:
        raw = RawTokenizer.from_file(str(path))
    except Exception as error:  # a plain `Exception` of Rust's
        raise InputError(f"{path}: not a readable tokenizer ({error})") from error
    return Tokenizer(raw)


def weights_of(name: str) -> tuple[str, str | None]:
    """Return the model and the revision that the name of a chunking's tokenizer stands for.

    >>> weights_of("all-MiniLM-L6-v2"), weights_of("./models/mine@2"), weights_of("owner/name@0123")
    (('all-MiniLM-L6-v2', None), ('./models/mine@2', None), ('owner/name', '0123'))
    """
    if name.startswith((".", "/", "~")):
        return name, None
    model, _, revision = name.partition("@")
    return model, revision or None


def tokenizer_of(name: str, home: Home, say: Callable[[str], None]) -> Tokenizer:
    return load_tokenizer(weights.fetch(*weights_of(name), home, say))
