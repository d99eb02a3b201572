"""The words of a text by a tokenizer that does not part it at spaces and marks as BERT's family does.

Byte-level BPE (GPT-2, RoBERTa, ModernBERT, Qwen) counts the space before a word to it, SentencePiece (XLM-R,
T5, Llama, Gemma) puts a sign in its place, and some see a whole text as one word. All of them say which
characters each token stands for, and that is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unicodedata import east_asian_width

import numpy as np
import numpy.typing as npt

from rag_assay.assets.tokenization.token_words import Ints, Words, no_words

if TYPE_CHECKING:
    from tokenizers import Encoding

Flags = npt.NDArray[np.bool_]


def loose_words(encoding: Encoding, text: str) -> Words:
    """Return the words of ``text``: a word ends where the tokenizer or white space ends one.

    Neighbouring letters and digits stay together, also where a tokenizer parts each digit from the next. A
    character of the East Asian scripts, which fill a square each and have no spaces, begins one too where a
    token does. Tokens of white space alone count to the word before them. Where a cut between words changes
    the tokens beside it (a word without its space may have others), the numbers are those within the text.
    """
    offsets = np.asarray(encoding.offsets, np.int64).reshape(-1, 2)
    word_ids = np.asarray([-1 if word is None else word for word in encoding.word_ids], np.int64)
    blank = np.fromiter(map(str.isspace, text), bool, len(text))
    starts, ends = _trimmed(offsets, blank)
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


def _trimmed(offsets: Ints, blank: Flags) -> tuple[Ints, Ints]:
    """Narrow spans by the white space at their ends; start >= end where nothing is left."""
    places = np.arange(len(blank) + 1)
    inked = np.flatnonzero(~blank)
    following = np.append(inked, len(blank))[np.searchsorted(inked, places)]
    before = np.append(0, inked + 1)[np.searchsorted(inked, places)]
    return following[offsets[:, 0]], before[offsets[:, 1]]


def _begins(starts: Ints, ends: Ints, word_ids: Ints, text: str, blank: Flags) -> Flags:
    """Say of each token whether a word begins with it; never within a character that tokens share."""
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
