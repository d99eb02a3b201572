"""A conversation with a model that no cell has: a local one without a key, and servers that come and go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.model_override import cell_for_model
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.generation.llm import Llm
from rag_assay.orchestration.question_service.opened_cell import OpenedCell, open_cell
from rag_assay.orchestration.web.chat.catalogue import read_catalogue
from rag_assay.warehouse.conversations import Turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import single_call
from rag_assay.warehouse.inference.streaming import PartialAnswer, on_token
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, stream_of, words
from tests.fakes.shipped import Shipped

pytestmark = pytest.mark.models
LOCAL = "local/smollm2-135m-instruct"
QUESTION = "When does the boat 3 leave its pier?"


@pytest.fixture
def work(shipped: Shipped) -> Iterator[BuildContext]:
    held = BuildContext(shipped.bench.home)
    yield held
    held.close()


def turn_of(talk: OpenedCell, question: str = QUESTION) -> Turn:
    return talk.answer(QuestionRequest(question))


def test_a_cell_without_a_model_is_answered_by_a_local_one_without_a_key(
    shipped: Shipped, work: BuildContext, weights: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights("smollm2-135m-instruct")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name)
    before = len(shipped.server.requests)
    study, measured = shipped.bench.study, shipped.cell("chain", "extractive")
    heard: list[PartialAnswer] = []
    with open_cell(study, measured, work) as talk:
        quoted = turn_of(talk)
    widened, cell = cell_for_model(study, measured, "smollm2-135m-instruct")
    brief = widened.generators[cell.generator].model_copy(update={"max_tokens": 8})
    widened = widened.model_copy(update={"generators": {**widened.generators, cell.generator: brief}})
    with open_cell(widened, cell, work) as talk, on_token(heard.append):
        turn = turn_of(talk)
    assert turn.status in {Status.OK, Status.REFUSED, Status.TRUNCATED}
    assert (turn.model, turn.usd) == (LOCAL, 0.0)
    assert turn.cell.endswith(".chain.smollm2-135m-instruct")
    found = [one.chunk_id for one in quoted.passages]
    assert [one.chunk_id for one in turn.passages][: len(found)] == found
    assert len(shipped.server.requests) == before


def test_names_of_generators_and_models_are_found_and_others_explained(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, cell = shipped.bench.study, shipped.cell("chain", "extractive")
    assert cell_for_model(study, cell, "model")[1].generator == "model"
    assert cell_for_model(study, cell, "openai/scripted") == cell_for_model(study, cell, "model")
    widened, other = cell_for_model(study, cell, LOCAL)
    assert (widened.generators[other.generator].model_dump()["model"], other.chunking) == (
        LOCAL,
        cell.chunking,
    )
    assert list(study.generators) == ["extractive", "gated", "model"], "the study itself stays as it is"
    taken = study.model_copy(update={"generators": {"smollm2-135m-instruct": study.generators["model"]}})
    assert cell_for_model(taken, cell, LOCAL)[1].generator == "smollm2-135m-instruct+"
    for name, words_of_it in (
        ("nonsense", "PROVIDER/NAME"),
        ("nobody/knows", "names no provider"),
        ("local/all-MiniLM-L6-v2", "not a local model that answers"),
        ("local/none", "not a local model that answers"),
        ("", "too short to be a name"),
    ):
        with pytest.raises(InputError, match=words_of_it) as caught:
            cell_for_model(study, cell, name)
        assert LOCAL in str(caught.value)
        assert "Value error" not in str(caught.value)
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="no key"):
        cell_for_model(study, cell, "openai/gpt-4o-mini")


def test_the_page_offers_a_model_first_and_the_measured_cells_beside_it(
    shipped: Shipped, work: BuildContext
) -> None:
    path = str(shipped.bench.study.path)
    base = shipped.cell("chain", "extractive")
    plain = read_catalogue(path, work, passages_of=base.key)
    assert plain.choices[0].cell == base
    other = read_catalogue(path, work, LOCAL, base.key)
    first = other.choices[0]
    assert (first.model, first.mean, first.rank) == (LOCAL, None, None)
    assert first.cell.key in {one.key for one in other.choices}
    assert {one.key for one in plain.choices} == {one.key for one in other.choices} - {first.key}
    assert other.of(first.key) == first
    known = read_catalogue(path, work, "model", base.key)
    assert (known.choices[0].cell.retriever, known.choices[0].cell.generator) == ("chain", "model")
    with pytest.raises(InputError, match="PROVIDER/NAME"):
        read_catalogue(path, work, "nonsense")


def test_a_server_that_is_lost_in_mid_stream_is_told_and_used_again_when_it_is_back(
    shipped: Shipped, work: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_call, "cancellable_sleep", lambda _seconds: None)
    drafts: list[PartialAnswer] = []
    server = FakeOpenAI(respond=lambda _received: _lost(server))
    monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
    study, cell = cell_for_model(shipped.bench.study, shipped.cell("hybrid", "model"), "model")
    with open_cell(study, cell, work) as talk, on_token(drafts.append):
        lost = turn_of(talk, "When does the boat 4 leave?")
        assert (lost.status, lost.answer) == (Status.ERROR, None)
        assert "broke off after 10 characters" in str(lost.reason)
        assert "connection refused" in str(lost.reason)
        still = turn_of(talk, "When does the boat 5 leave?")
        assert (still.status, still.answer) == (Status.ERROR, None)
        assert "connection refused" in str(still.reason)
        with FakeOpenAI(answer("At five o'clock [1]."), port=urlsplit(server.api_base).port or 0):
            back = turn_of(talk, "When does the boat 4 leave?")
        assert (back.status, back.answer) == (Status.OK, "At five o'clock [1].")


def _lost(server: FakeOpenAI) -> Scripted:
    """Some words, and then the server is gone."""
    threading.Timer(0.5, server.close).start()
    return stream_of(*words("It leaves "), stays=60, drops=True)


def test_of_ranked_models_the_one_that_answered_is_shown(
    shipped: Shipped, work: BuildContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_call, "cancellable_sleep", lambda _seconds: None)

    def respond(received: Received) -> Scripted:
        if received.body["model"] == "scripted":
            return stream_of(*words("Half of "), drops=True)
        return answer("At six o'clock [1].")

    drafts: list[PartialAnswer] = []
    with FakeOpenAI(respond=respond) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.api_base)
        study, cell = shipped.bench.study, shipped.cell("hybrid", "model")
        ranked = Llm.model_validate(
            {"model": "openai/scripted", "passages": 2, "fallback": ["openai/second"]}
        )
        study = study.model_copy(update={"generators": {**study.generators, "model": ranked}})
        with open_cell(study, cell, work) as talk, on_token(drafts.append):
            turn = turn_of(talk, "When does the boat 6 leave?")
    assert (turn.status, turn.model, turn.answer) == (Status.OK, "openai/second", "At six o'clock [1].")
    if drafts:  # unless the talk listens itself
        assert [one.model for one in drafts if not one.text] == ["openai/scripted"] * 3 + ["openai/second"]
