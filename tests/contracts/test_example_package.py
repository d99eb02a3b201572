"""The parts of the example package pass the suites of their kinds: what they show others is sound."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets.tokenization.tokenizer import Tokenizer, load_tokenizer
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.warehouse import registry
from rag_assay.warehouse.source import Source
from tests.contracts import (
    test_chunkers,
    test_embedders,
    test_generators,
    test_judges,
    test_metrics,
    test_readers,
    test_retrievers,
    test_steps,
    test_understanding,
)
from tests.fakes.indexing import build_index
from tests.fakes.openai_server import FakeOpenAI

PACKAGE = Path(__file__).parents[1] / "example_package"


@pytest.fixture(scope="module")
def part() -> Iterator[Callable[..., Any]]:
    """`module.Class` and its parameters -> the part."""

    def made(name: str, **parameters: object) -> Any:
        module, _, kind = name.partition(".")
        return getattr(import_module(f"acme_parts.{module}"), kind)(**parameters)

    sys.path.insert(0, str(PACKAGE))
    registry._entries.cache_clear()  # a test before may have looked for parts already
    yield made
    sys.path.remove(str(PACKAGE))
    registry._entries.cache_clear()


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> tuple[OpenIndex, OpenIndex]:
    texts = list(test_retrievers.TEXTS)
    return (
        build_index(tmp_path_factory.mktemp("index"), texts, columns=test_retrievers.facts(texts)),
        build_index(tmp_path_factory.mktemp("other"), texts[::-1], columns=test_retrievers.facts(texts)),
    )


@pytest.fixture(scope="module")
def tokenizer(weights: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(weights("all-MiniLM-L6-v2"))


Make = Callable[..., Any]


@pytest.mark.models
@pytest.mark.parametrize("name", test_chunkers.TEXTS)
def test_the_chunker(name: str, part: Make, tokenizer: Tokenizer) -> None:
    text = test_chunkers.TEXTS[name]
    spans = test_chunkers.hold(part("paragraphs.Paragraphs"), text, tokenizer)
    assert bool(spans) == bool(text.strip())


@pytest.mark.parametrize("check", test_embedders.CHECKS, ids=lambda check: check.__name__)
def test_the_embedder(check: Callable[[Any], None], part: Make) -> None:
    check(part("letters.Letters", overflow="truncate").load())


@pytest.mark.parametrize("check", test_retrievers.CHECKS, ids=lambda check: check.__name__)
def test_the_retriever(check: Callable[..., None], part: Make, indexes: tuple[OpenIndex, OpenIndex]) -> None:
    check(part("longest.Longest", k=5), indexes[0])


@pytest.mark.parametrize("check", test_steps.CHECKS, ids=lambda check: check.__name__)
def test_the_step(check: Callable[..., None], part: Make, indexes: tuple[OpenIndex, OpenIndex]) -> None:
    check(part("half.Half"), indexes[0])


@pytest.mark.parametrize("check", test_understanding.CHECKS, ids=lambda check: check.__name__)
def test_the_query_transform(
    check: Callable[..., None], part: Make, indexes: tuple[OpenIndex, OpenIndex]
) -> None:
    check(part("loud.Loud"), indexes[0])


def test_what_is_opened_on_two_indexes(part: Make, indexes: tuple[OpenIndex, OpenIndex]) -> None:
    test_retrievers.two_indexes_do_not_mix(part("longest.Longest", k=5), *indexes)
    test_steps.two_indexes_do_not_mix(part("half.Half"), *indexes)
    test_understanding.two_indexes_do_not_mix(part("loud.Loud"), *indexes)


@pytest.mark.parametrize("check", test_generators.CHECKS, ids=lambda check: check.__name__)
def test_the_generator(check: Callable[..., None], part: Make, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        check(test_generators.Bench(part("first_words.FirstWords"), server, tmp_path / "home"))


def test_the_generator_is_deterministic(part: Make, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        bench = test_generators.Bench(part("first_words.FirstWords"), server, tmp_path / "home")
        test_generators.check_what_says_that_it_is_deterministic_is(bench, tmp_path / "other")


@pytest.mark.parametrize("check", test_judges.CHECKS, ids=lambda check: check.__name__)
def test_the_judge(check: Callable[..., None], part: Make, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        check(test_judges.Bench(part("brief.Brief"), server, tmp_path / "home"))


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_metric_gives_each_case_its_own_score(k: int, part: Make) -> None:
    test_metrics.hold_scores(part("found.Found", k=k))


def test_the_reader(part: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = f"Ferries\n{test_readers.WORDS}".encode()
    monkeypatch.setitem(test_readers.GOOD, "acme_notes", ("b.note", lambda: words))
    folder = tmp_path / "files"
    test_readers.check(part("notes.Notes"), "acme_notes", folder)
    (folder / "a.note").write_bytes(b"\xff\xfe")
    first, *others = part("notes.Notes").read(Source(reader="acme_notes", path=str(folder)))
    assert (first.body, first.reason) == (None, "not UTF-8: invalid start byte")
    assert all(page.body for page in others)


def test_no_part_is_left_out() -> None:
    held = {"paragraphs", "letters", "longest", "half", "loud", "first_words", "brief", "found", "notes"}
    without_a_suite = {"site_spider"}
    modules = {file.stem for file in (PACKAGE / "acme_parts").glob("*.py")} - {"__init__"}
    assert modules == held | without_a_suite
