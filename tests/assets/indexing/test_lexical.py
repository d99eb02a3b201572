from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rag_assay.assets.indexing import lexical
from rag_assay.assets.indexing.lexical import lexical_of, open_lexical, write_lexical
from rag_assay.assets.tokenization.words import plain_tokens
from rag_assay.warehouse.errors import CorruptFileError

TEXTS = ["a b a", "c a", "", "b b b z", "a", "z a"]


def test_words_are_split_alike_for_chunks_and_questions() -> None:
    assert plain_tokens("Straßenlärm: Art. 5(2), L'Été_1 中文") == [
        "strassenlärm",
        "art",
        "5",
        "2",
        "l",
        "été_1",
        "中文",
    ]
    assert plain_tokens("STRASSENLÄRM") == plain_tokens("straßenlärm")
    assert plain_tokens("… – !") == []


@pytest.mark.parametrize("block", [1, 2, 5, 8_192])
def test_postings_are_the_counts_of_each_word(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "BLOCK", block)
    found = lexical_of(iter(TEXTS))
    assert found.words == ["a", "b", "c", "z"]
    assert found.lengths.tolist() == [3, 2, 0, 4, 1, 2]
    counted = [Counter(plain_tokens(text)) for text in TEXTS]
    for word in found.words:
        rows, counts = found.postings(word)
        assert dict(zip(rows.tolist(), counts.tolist(), strict=True)) == {
            row: counter[word] for row, counter in enumerate(counted) if counter[word]
        }
        assert (np.diff(rows) > 0).all(), "rows rise"
    assert not len(found.postings("unknown")[0])


@pytest.mark.parametrize("texts", [[], ["", " … "]])
def test_nothing_has_no_words(texts: list[str], tmp_path: Path) -> None:
    write_lexical(lexical_of(texts), tmp_path)
    found = open_lexical(tmp_path)
    assert (found.words, found.begins.tolist(), found.lengths.tolist()) == ([], [0], [0] * len(texts))


def test_arrays_are_mapped_not_read(tmp_path: Path) -> None:
    write_lexical(lexical_of(TEXTS), tmp_path)
    found = open_lexical(tmp_path)
    assert isinstance(found.rows, np.memmap)
    assert found.postings("b")[1].tolist() == [1, 3]


@pytest.mark.parametrize("name", ["words.parquet", "rows.npy", "lengths.npy"])
def test_a_torn_file_is_named(name: str, tmp_path: Path) -> None:
    write_lexical(lexical_of(TEXTS), tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptFileError, match=tmp_path.name):
        open_lexical(tmp_path)


@pytest.mark.parametrize("name", ["words.parquet", "begins.npy", "rows.npy", "counts.npy"])
def test_a_file_of_another_index_is_named(name: str, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write_lexical(lexical_of(TEXTS), one)
    write_lexical(lexical_of(["another text", "of other words"]), other)
    (other / name).replace(one / name)
    with pytest.raises(CorruptFileError, match="one: the lexical index is damaged"):
        open_lexical(one)


def test_arrays_of_another_byte_order_are_read_as_what_they_say(tmp_path: Path) -> None:
    written = lexical_of(TEXTS)
    write_lexical(written, tmp_path)
    for name in ("begins", "rows", "counts", "lengths"):
        array = np.load(tmp_path / f"{name}.npy")
        np.save(tmp_path / f"{name}.npy", array.astype(array.dtype.newbyteorder()))
    found = open_lexical(tmp_path)
    assert found.rows.dtype != written.rows.dtype
    for word in written.words:
        assert [part.tolist() for part in found.postings(word)] == [
            part.tolist() for part in written.postings(word)
        ]


@pytest.mark.parametrize("many", [0, 1_000])
def test_postings_that_were_let_go_of_are_read_again(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "MANY", many)
    held = lexical_of(TEXTS)
    write_lexical(held, tmp_path)
    for found in (open_lexical(tmp_path), held):
        rows, counts = found.postings("b")
        for _ in range(2):
            found.release_pages()
            assert (rows.tolist(), counts.tolist()) == ([0, 3], [1, 3])
