"""Gates by retrieval scores: features, thresholds, and that nothing is asked behind a closed one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from rag_assay.evals.generation import quotation
from rag_assay.evals.generation.contract import Passage, Request
from rag_assay.evals.generation.extractive import Extractive
from rag_assay.evals.generation.gate import Gate, feature_of, fit_threshold
from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.study.registry import read_generator
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.generating import context_of
from tests.fakes.openai_server import FakeOpenAI, answer


def request(*scores: float, language: str | None = "en") -> Request:
    passages = (
        Passage("The ferry leaves at noon.", f"c{at}", score=score) for at, score in enumerate(scores)
    )
    return Request("When?", language, passages=tuple(passages))


@pytest.mark.parametrize("feature", ["top", "margin"])
def test_the_order_of_reading_changes_no_feature(feature: str) -> None:
    assert feature_of([1.0, 5.0, 3.0], feature) == feature_of([5.0, 3.0, 1.0], feature)  # type: ignore[arg-type]
    assert feature_of([], feature) is None  # type: ignore[arg-type]
    for scores in ([2.0], [2.0, 2.0], [0.0, 0.0, 0.0], [-1.0, -3.0], [1e308, -1e308]):
        value = feature_of(scores, feature)  # type: ignore[arg-type]
        assert value is not None
        assert np.isfinite(value) or scores[0] == 1e308


def test_a_threshold_lies_between_the_kinds_and_decides_as_it_says() -> None:
    found = fit_threshold("top", [8.0, 9.0, 4.0], [1.0, 5.0, 2.0])
    assert 2.0 < found.threshold < 4.0 or 5.0 < found.threshold < 8.0
    gate = Gate(threshold=found.threshold)
    right = [gate.refusal(x) is None for x in (8.0, 9.0, 4.0)] + [
        gate.refusal(x) is not None for x in (1.0, 5.0, 2.0)
    ]
    assert np.mean(right) == pytest.approx(found.value)


def test_of_equally_good_thresholds_the_middle_one_is_taken_and_a_score_that_reaches_it_passes() -> None:
    assert fit_threshold("top", [2.0, 3.0, 4.0], [1.0, 2.0, 3.0]).threshold == 2.5  # of 1.5, 2.5 and 3.5
    assert Gate(threshold=0.5).refusal(0.5) is None


def test_kinds_count_alike_however_many_there_are() -> None:
    rare = fit_threshold("top", [5.0] * 98 + [1.0, 1.5], [1.2, 1.3])
    assert 1.3 < rare.threshold < 1.5, "one of a hundred is lost, to refuse both of the two"
    assert rare.value == pytest.approx((0.99 + 1.0) / 2)


@pytest.mark.parametrize(("yes", "no", "missing"), [([], [1.0], "answerable"), ([1.0], [], "unanswerable")])
def test_one_kind_alone_fits_nothing(yes: list[float], no: list[float], missing: str) -> None:
    with pytest.raises(InputError, match=f"no train question with passages is {missing}"):
        fit_threshold("top", yes, no)


@pytest.mark.parametrize("seed", range(20))
def test_the_fitted_threshold_is_the_best_of_all(seed: int) -> None:
    chance = np.random.default_rng(seed)
    yes, no = chance.integers(0, 9, 30).astype(float), chance.integers(0, 7, 20).astype(float)
    found = fit_threshold("top", yes.tolist(), no.tolist())
    best = max(((yes >= t).mean() + (no < t).mean()) / 2 for t in np.arange(-0.5, 10, 0.5))
    assert found.value == pytest.approx(best)
    assert ((yes >= found.threshold).mean() + (no < found.threshold).mean()) / 2 == pytest.approx(best)


def test_behind_a_closed_gate_no_model_is_asked(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with (
        FakeOpenAI(respond=lambda _received: answer("At noon.")) as server,
        Gateway(Home(tmp_path)) as gateway,
    ):
        generator = Llm(model="openai/any", api_base=server.api_base, gate=Gate(threshold=0.42))
        context = context_of(gateway)
        low, high, none = generator.answer(
            [request(0.31, 0.2, language="de"), request(0.5), request()], context
        )
        assert len(server.requests) == 1
    assert (low.status, low.reason) == (Status.REFUSED, "retrieval score 0.31 below the gate's 0.42")
    assert low.text == "Die Dokumente sagen dazu nichts."
    assert (low.usd, low.prompt_tokens, low.model, low.confidence) == (0.0, 0, None, 0.31)
    assert (high.status, high.text, high.confidence) == (Status.OK, "At noon.", 0.5)
    assert (none.status, none.confidence) == (Status.NO_CONTEXT, None)


def test_confidence_is_what_the_gate_reads_and_without_one_the_probability(tmp_path) -> None:
    with Gateway(Home(tmp_path)) as gateway:
        (plain,) = Extractive().answer([request(3.0, 1.0)], context_of(gateway))
        (gated,) = Extractive(gate=Gate(feature="margin", threshold=0)).answer(
            [request(3.0, 1.0)], context_of(gateway)
        )
    assert gated.confidence == 2.0
    assert plain.confidence is not None
    assert 0 <= plain.confidence <= 1, "the probability of the best sentence"


def test_the_feature_quote_is_the_probability_that_quoting_has_whoever_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    passage = Passage("The ferry leaves at noon. Bread is sold in the town.", "c", score=9.0)
    asked = [
        Request(question, passages=(passage,))
        for question in ("When does the ferry leave?", "Who is the mayor?")
    ]
    with FakeOpenAI(respond=lambda _: answer("At noon.")) as server, Gateway(Home(tmp_path)) as gateway:
        context = context_of(gateway)
        quoted = Extractive(min_score=None).answer(asked, context)
        likely, unlikely = (one.confidence for one in quoted)
        assert likely is not None
        assert unlikely is not None
        assert likely > unlikely
        gate = Gate(feature="quote", threshold=(likely + unlikely) / 2)
        generators = Extractive(gate=gate), Llm(model="openai/any", api_base=server.api_base, gate=gate)
        for generator in generators:
            yes, no = generator.answer([*asked, request()], context)[:2]
            assert (yes.status, yes.confidence) == (Status.OK, likely)
            assert (no.status, no.confidence) == (Status.REFUSED, unlikely)
            assert (no.reason or "").startswith("probability of the best sentence 0.")
            (empty,) = generator.answer([replace(asked[0], passages=(Passage("# Ferries", "c"),))], context)
            assert (empty.status, empty.confidence) == (Status.REFUSED, 0.0), "no sentence is no answer"
        assert len(server.requests) == 1


def test_wrong_refusals_limits_the_fitted_threshold_alone() -> None:
    chance = np.random.default_rng(3)
    yes, no = chance.normal(1, 1, 200), chance.normal(0, 1, 200)
    for share in (0.01, 0.1, 0.3):
        found = fit_threshold("quote", yes.tolist(), no.tolist(), share)
        assert (yes < found.threshold).mean() <= share
        kept = [at for at in np.concatenate([yes, no]) if (yes < at).mean() <= share]
        assert found.value == pytest.approx(
            max(((yes >= at).mean() + (no < at).mean()) / 2 for at in kept), abs=0.003
        )
    with pytest.raises(ValidationError, match="write `threshold: tuned`"):
        Gate(threshold=0.5, wrong_refusals=0.1)


def test_another_way_to_score_sentences_is_another_gate_by_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    gates = [Gate(feature="quote", threshold=0.4), Gate(threshold=0.4)]
    before = [Llm(model="openai/any", gate=gate).identity() for gate in gates]
    monkeypatch.setattr(quotation, "CODE_VERSION", "another")
    quote, top = (Llm(model="openai/any", gate=gate).identity() for gate in gates)
    assert quote != before[0]
    assert top == before[1]


def test_a_gate_that_was_not_fitted_is_no_open_one(tmp_path) -> None:
    with Gateway(Home(tmp_path)) as gateway, pytest.raises(InputError, match="was not fitted"):
        Extractive(gate=Gate(threshold="tuned")).answer([request(3.0)], context_of(gateway))


def test_a_gate_is_part_of_the_identity_and_none_is_not() -> None:
    plain = Extractive()
    gates = [
        Gate(threshold=0.4),
        Gate(threshold=0.5),
        Gate(feature="margin", threshold=0.4),
        Gate(threshold="tuned"),
        Gate(feature="quote", threshold=0.4),
        Gate(threshold="tuned", wrong_refusals=0.1),
    ]
    identities = {one.identity() for one in (plain, *(Extractive(gate=gate) for gate in gates))}
    assert len(identities) == 7
    assert "gate" not in plain.meaning()
    assert "gate" not in plain.model_dump()
    again = read_generator({"extractive": {"gate": {"threshold": "tuned"}}})
    assert again == Extractive(gate=gates[3])


@pytest.mark.parametrize(
    "gate",
    [
        {},
        {"threshold": "often"},
        {"threshold": 1, "feature": "bottom"},
        {"threshold": float("nan")},
        {"threshold": True},
        {"threshold": 0.5, "wrong_refusals": 0.1},
        {"threshold": "tuned", "wrong_refusals": 1},
        3,
    ],
)
def test_a_gate_that_says_nothing_sensible_is_refused(gate: object) -> None:
    with pytest.raises(ValidationError):
        read_generator({"extractive": {"gate": gate}})


@pytest.mark.parametrize("kind", ["no_context", "oracle_context"])
def test_what_reads_no_ranking_has_no_gate(kind: str) -> None:
    with pytest.raises(ValidationError, match="reads no ranking"):
        read_generator({kind: {"model": "openai/any", "gate": {"threshold": 1}}})
