from __future__ import annotations

import doctest
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assay.warehouse import identity
from rag_assay.warehouse.identity import (
    canonical,
    digest,
    digest_strings,
    sha256_bytes,
    sha256_file,
    sha256_text,
)


def test_canonical_json_has_one_form() -> None:
    assert (
        canonical({"b": [1, 2.5, None], "a": {"d": True, "c": "é"}})
        == '{"a":{"c":"é","d":true},"b":[1,2.5,null]}'
    )


def test_what_json_does_not_know_has_no_identity() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical(float("nan"))
    with pytest.raises(TypeError):
        canonical({"a": {1, 2}})


def test_a_digest_by_hand() -> None:
    assert digest({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()[:20]


def test_doctests_hold() -> None:
    result = doctest.testmod(identity)
    assert result.attempted >= 3
    assert result.failed == 0


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_lists_of_strings_collide_only_when_they_are_equal(one: list[str], other: list[str]) -> None:
    assert (digest_strings(one) == digest_strings(other)) == (one == other)


def test_a_lone_surrogate_has_a_digest() -> None:
    assert sha256_text("a\ud800") == sha256_bytes(b"a\xed\xa0\x80")
    assert digest_strings(["a\ud800"]) != digest_strings(["a"])


def test_a_file_has_the_digest_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "big"
    path.write_bytes(bytes(range(256)) * 5000)
    assert sha256_file(path) == sha256_bytes(path.read_bytes())
