"""Prompts are written as the standard library writes them: ids of calls are digests of that text."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assay.warehouse import json_encoder as module
from rag_assay.warehouse.identity import canonical, digest
from rag_assay.warehouse.inference.replies import Call
from rag_assay.warehouse.json_encoder import json_encoder

TEXTS = st.text(st.characters(exclude_categories=()))  # lone surrogates, too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_it_writes_what_json_writes(value: object) -> None:
    assert json_encoder(sort_keys=True, separators=(",", ":"))(value) == canonical(value)
    assert json_encoder()(value) == json.dumps(value, ensure_ascii=False)
    text = json_encoder(escape_surrogates=True)(value)
    assert canonical(json.loads(text.encode())) == canonical(json.loads(json.dumps(value)))


@given(TEXTS, st.text(min_size=1))
def test_a_text_within_another_is_written_as_it_is_alone(before: str, secret: str) -> None:
    write = json_encoder(escape_surrogates=True)
    assert write(secret)[1:-1] in write([f"{before}{secret}"])


@pytest.mark.parametrize("value", [float("nan"), [float("inf")]])
def test_a_number_that_is_not_finite_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_encoder()(value)


@given(TEXTS, st.floats(0, 2), st.none() | st.integers(0, 20))
def test_the_id_of_a_call_is_the_digest_of_its_parts(text: str, temperature: float, top: int | None) -> None:
    parts = {
        "model": "openai/any",
        "weights": None,
        "api_base": "http://127.0.0.1:1/v1",
        "messages": [{"role": "user", "content": text}],
        "temperature": temperature,
        "max_tokens": 256,
        "seed": 7,
        "response_format": {"type": "json_schema", "minimum": 1e-07},
        "replicate": 0,
        **({} if top is None else {"top_logprobs": top}),
    }
    call = Call(**parts)
    assert call.request == canonical(parts)
    assert call.id == digest(parts)


def test_the_examples_of_its_docstring_hold() -> None:
    assert doctest.testmod(module).failed == 0
