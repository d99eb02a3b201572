from __future__ import annotations

import copy
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import rag_assay
from rag_assay.warehouse import lazy_patterns
from rag_assay.warehouse.lazy_patterns import lazy_pattern


def _modules_with_patterns() -> list[str]:
    found = []
    for one in pkgutil.walk_packages(rag_assay.__path__, "rag_assay."):
        spec = one.module_finder.find_spec(one.name, None)  # type: ignore[call-arg]
        text = spec.loader.get_source(one.name) if spec and spec.loader else ""  # type: ignore[attr-defined]
        if "import lazy_pattern" in (text or ""):
            found.append(one.name)
    return found


def _patterns(value: Any) -> Iterator[re.Pattern[str]]:
    if type(value) is lazy_patterns._LazyPattern:
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _patterns(one)


def test_every_lazy_pattern_compiles() -> None:
    modules = [import_module(name) for name in _modules_with_patterns()]
    patterns = [one for module in modules for value in vars(module).values() for one in _patterns(value)]
    assert len(patterns) > 50
    assert all(isinstance(one.flags, int) for one in patterns)


def test_a_pattern_is_compiled_where_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(
        lazy_patterns.re,
        "compile",
        lambda text, flags=0: (compiled.append(text), re._compiler.compile(text, flags))[1],  # type: ignore[attr-defined]
    )
    word = lazy_pattern(r"(?P<word>\w+)!", re.IGNORECASE)
    assert word.pattern == r"(?P<word>\w+)!"
    copy.copy(word)
    assert compiled == []
    assert word.findall("a! b c!") == ["a", "c"]
    assert (word.groupindex["word"], bool(word.flags & re.IGNORECASE)) == (1, True)
    assert word.sub("", "a! b") == " b"
    assert len(compiled) == 1


def test_a_mistake_in_a_pattern_is_told_at_its_use() -> None:
    broken = lazy_pattern("(")
    with pytest.raises(re.error, match="unterminated"):
        broken.search("text")
