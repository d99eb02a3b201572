"""Texts that are longer than a model reads, by a tokenizer that makes several tokens of one character."""

from __future__ import annotations

import pytest

from rag_assay.assets.embedding.windows import count_tokens, first_windows
from rag_assay.assets.tokenization.tokenizer import Tokenizer


@pytest.fixture
def by_bytes() -> Tokenizer:
    """One token a byte, as byte-level BPE does with what it has not learnt."""
    from tokenizers import Tokenizer as Raw
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    raw = Raw(BPE({sign: number for number, sign in enumerate(sorted(ByteLevel.alphabet()))}, []))
    raw.pre_tokenizer = ByteLevel(add_prefix_space=False)
    return Tokenizer(raw)


@pytest.mark.parametrize("text", ["🛳️ 🛳️ 🛳️", "né né né né né", "漢字とかな 漢字 漢字"])
def test_a_text_is_cut_where_its_tokens_end_however_few_its_characters_are(
    text: str, by_bytes: Tokenizer
) -> None:
    room = 12
    assert len(text) <= 14 < count_tokens([text], by_bytes)[0]
    (cut,) = first_windows([text], by_bytes, room)
    assert 0 < count_tokens([cut], by_bytes)[0] <= room
    assert text.startswith(cut)


def test_what_fits_stays_as_it_is(by_bytes: Tokenizer) -> None:
    texts = ["", " \n", "twelve bytes", "é" * 6]
    assert first_windows(texts, by_bytes, 12) == texts
