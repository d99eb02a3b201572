from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assay.assets.tokenization import tokenizer as module
from rag_assay.assets.tokenization.tokenizer import Tokenizer, Words, load_tokenizer, read_tokenizer
from rag_assay.warehouse.errors import InputError
from tests.fakes.other_tokenizers import KINDS, other_tokenizer

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


def as_lists(words: Words) -> list[list[int]]:
    return [words.starts.tolist(), words.ends.tolist(), words.tokens.tolist()]


def test_words_by_hand(tokenizer: Tokenizer) -> None:
    words = tokenizer.words(" Art. 5\n unbundling")
    assert as_lists(words) == [[1, 4, 6, 9], [4, 5, 7, 19], [1, 1, 1, 3]]  # un ##bund ##ling
    assert tokenizer.count([" Art. 5\n unbundling", ""]) == [6, 0]
    assert tokenizer.special_tokens == 2  # [CLS] and [SEP]


SIGNS = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from(" \t\r\n\u00a0\u0085\u2028\x1c\x00\ufeff\u0301中.[]CLSEP"),
)


@settings(max_examples=300, deadline=None)
@given(st.text(SIGNS, max_size=120))
def test_words_run_by_run_are_those_of_the_whole_text(tokenizer: Tokenizer, text: str) -> None:
    whole = module._words_of(tokenizer._raw.encode(text, add_special_tokens=False))
    assert as_lists(tokenizer.words(text)) == as_lists(whole)
    assert as_lists(tokenizer.words(text)) == as_lists(whole)  # now from memory


def test_words_are_the_same_after_the_memory_was_emptied(
    weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = read_tokenizer(weights("all-MiniLM-L6-v2"))
    texts = [" ".join(f"w{n * step}-x" for n in range(200)) for step in (1, 7, 1)]
    usual = [as_lists(tokenizer.words(text)) for text in texts]
    monkeypatch.setattr(module, "MEMORY_CHARACTERS", 10)
    assert [as_lists(tokenizer.words(text)) for text in texts] == usual
    assert np.sum(usual[0][2]) == tokenizer.count(texts[:1])[0]


def test_another_kind_of_tokenizer_is_asked_for_whole_texts() -> None:
    from tokenizers import Tokenizer as Raw
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Metaspace

    raw = Raw(WordLevel({"▁a": 0, "▁b": 1, "?": 2}, unk_token="?"))  # noqa: S106 -- not a password
    raw.pre_tokenizer = Metaspace()
    tokenizer = Tokenizer(raw)
    assert tokenizer._runs is None
    assert not tokenizer.steady
    assert as_lists(tokenizer.words("a b  c")) == [[0, 2, 5], [1, 3, 6], [1, 2, 1]], "▁ is the first space"


def test_words_without_spaces_and_of_shared_characters_by_hand() -> None:
    tokenizer = other_tokenizer("byte-level BPE by a pattern")
    assert tokenizer.count(["2019", " 中 "]) == [4, 5], "a digit is a token, and so is a byte"
    assert as_lists(tokenizer.words("2019, 中文\n")) == [[0, 4, 6, 7], [4, 5, 7, 8], [4, 2, 3, 4]], (
        "a space counts to the word before it"
    )
    tokenizer = other_tokenizer("SentencePiece BPE")
    assert as_lists(tokenizer.words("by 31\n"))[:2] == [[0, 3], [2, 5]]
    assert tokenizer.words(" \n").starts.tolist() == tokenizer.words("").starts.tolist() == []


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=100, deadline=None)
@given(text=st.text(st.one_of(SIGNS, st.characters()), max_size=120))
def test_words_of_any_tokenizer_are_stretches_with_all_of_its_tokens(kind: str, text: str) -> None:
    tokenizer = other_tokenizer(kind)
    words = tokenizer.words(text)
    assert all(start < end for start, end in zip(words.starts, words.ends, strict=True))
    assert (np.diff(words.starts) > 0).all()
    assert (words.ends <= len(text)).all()
    if len(words.starts):
        assert words.tokens.sum() == tokenizer.count([text])[0]


def test_a_tokenizer_that_was_replaced_is_read_again(weights: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes((weights("all-MiniLM-L6-v2") / "tokenizer.json").read_bytes())
    first = load_tokenizer(tmp_path)
    assert load_tokenizer(tmp_path) is first
    path.write_text(KINDS["byte-level BPE"]().to_str())
    assert load_tokenizer(tmp_path).count(["unbundling 中"]) != first.count(["unbundling 中"])


def test_a_model_without_tokenizer_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)
