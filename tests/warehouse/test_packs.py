"""Packs of small bodies: found by their SHA-256, whatever is torn or flipped around them."""

from __future__ import annotations

import random

import pytest

from rag_assay.crawlers.store import Bodies
from rag_assay.warehouse import packs
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import sha256_bytes
from rag_assay.warehouse.packs import BLOCK, SMALL, Packs, PackWriter
from rag_assay.warehouse.pages import read_body, write_body
from rag_assay.warehouse.paths import Home

RANDOM = random.Random(7)
BODIES = [f"passage {n}: {RANDOM.random()}".encode() * RANDOM.randint(1, 40) for n in range(2000)]
HASHES = [sha256_bytes(body) for body in BODIES]


def write(folder, name, bodies):
    writer = PackWriter(folder / f"{name}.pack")
    for body in bodies:
        writer.add(sha256_bytes(body), body)
    writer.close()
    return folder / f"{name}.pack"


def lost(folder):
    packs.unpack_block.cache_clear()
    here = Packs(folder)
    found = [here.find(sha256) for sha256 in HASHES]
    assert all(body in {None, BODIES[n]} for n, body in enumerate(found)), "other bytes than were asked for"
    return [n for n, body in enumerate(found) if body is None]


def test_all_bodies_are_found_in_any_order_and_nothing_else(tmp_path):
    write(tmp_path, "a", BODIES[:1500])
    write(tmp_path, "b", [*BODIES[1400:], b""])
    assert lost(tmp_path) == []
    here = Packs(tmp_path)
    assert here.find(sha256_bytes(b"")) == b""
    assert here.find(sha256_bytes(b"never stored")) is None
    assert here.find("00" * 32) is None
    assert Packs(tmp_path / "absent").find(HASHES[0]) is None


def test_a_pack_is_much_smaller_than_its_bodies(tmp_path):
    assert write(tmp_path, "a", BODIES).stat().st_size < sum(map(len, BODIES)) / 2


def test_what_comes_or_grows_meanwhile_is_found(tmp_path):
    here = Packs(tmp_path)
    assert here.find(HASHES[0]) is None
    writer = PackWriter(tmp_path / "a.pack")
    writer.add(HASHES[0], BODIES[0])
    assert writer.waiting
    writer.flush()
    assert here.find(HASHES[0]) == BODIES[0]
    writer.add(HASHES[1], BODIES[1])
    writer.close()
    assert here.find(HASHES[1], look_again=False) is None
    assert here.find(HASHES[1]) == BODIES[1]


def test_a_torn_end_costs_the_torn_block_only_and_later_packs_are_whole(tmp_path):
    path = write(tmp_path, "a", BODIES)
    whole = path.read_bytes()
    last = list(packs.blocks(path))[-1]
    for cut in range(len(whole) - 1, last.at - 1000, -997):
        path.write_bytes(whole[:cut])
        assert lost(tmp_path) == list(range(len(BODIES) - len(last.entries), len(BODIES)))
    write(tmp_path, "b", BODIES[-len(last.entries) :])
    assert lost(tmp_path) == []


def test_a_flipped_bit_costs_one_block_at_most_and_is_never_served(tmp_path):
    path = write(tmp_path, "a", BODIES)
    whole = path.read_bytes()
    most = max(len(block.entries) for block in packs.blocks(path))
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[RANDOM.randrange(len(whole))] ^= 1 << RANDOM.randrange(8)
        path.write_bytes(damaged)
        assert len(lost(tmp_path)) <= most


def test_a_damaged_body_is_mended_by_the_next_reading(tmp_path):
    home = Home(tmp_path)
    for name in ("first", "second"):
        bodies = Bodies(home, tmp_path, name)
        assert [bodies.store(body) for body in BODIES] == HASHES
        bodies.close()
    (path,) = home.packs.glob("*.pack")  # the second reading found nothing new
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    packs.unpack_block.cache_clear()
    broken = lost(home.packs)
    assert broken
    with pytest.raises(CorruptFileError, match="Crawl its source again"):
        read_body(home, HASHES[broken[0]])
    bodies = Bodies(home, tmp_path, "third")
    for body in BODIES:
        bodies.store(body)
    bodies.close()
    assert lost(home.packs) == []
    assert read_body(home, HASHES[broken[0]]) == BODIES[broken[0]]


def test_large_bodies_and_those_of_earlier_versions_are_files_of_their_own(tmp_path):
    home = Home(tmp_path)
    old = write_body(home, BODIES[0])
    large = RANDOM.randbytes(SMALL + 1)
    bodies = Bodies(home, tmp_path, "a")
    assert bodies.store(BODIES[0]) == old
    assert bodies.store(RANDOM.randbytes(SMALL))
    sha256 = bodies.store(large)
    bodies.close()
    assert home.body(sha256).exists()
    assert read_body(home, sha256) == large
    assert read_body(home, old) == BODIES[0]
    assert sum(len(block.entries) for block in packs.blocks(home.packs / "a.pack")) == 1


def test_blocks_are_bounded(tmp_path):
    path = write(tmp_path, "a", [RANDOM.randbytes(SMALL) for _ in range(20)])
    for block in packs.blocks(path):
        assert len(packs.unpack_block(path, block.at)) <= BLOCK + SMALL
