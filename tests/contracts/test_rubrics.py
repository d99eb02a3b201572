"""Every rubric is held to one contract, which is itself proved against rubrics that break it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from rag_assay.evals.human.item_order import showings
from rag_assay.evals.human.queue import read_queue, write_queue
from rag_assay.evals.judging.criteria import Preset
from rag_assay.evals.rubrics.binary import Binary
from rag_assay.evals.rubrics.criteria import CriteriaRubric
from rag_assay.evals.rubrics.ordinal import Ordinal
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.rubrics.rubric import RUBRICS, Criterion, Rubric, metric_name
from rag_assay.evals.study.registry import RUBRICS as REGISTERED
from rag_assay.warehouse.components import OneOf, as_written
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.yaml_positions import load
from tests.fakes.queues import item_of, queue_of, scores_of

WORDED = {"ask": "Is it <b>kind</b>?", "anchors": {"1": "Rude {{ x }}", "4": "Kind"}, "scale": 4}
KINDS: dict[str, Rubric] = {
    "points": Points(),
    "points_own": Points(ask="How kind?", anchors={1.5: "Kind", -2: "Rude"}, shows_ground_truth=False),
    "ordinal": Ordinal(),
    "ordinal_own": Ordinal(scale=3, anchors={3: "Well", 1: "Badly", 2: "So-so"}),
    "binary": Binary(),
    "pairwise": PairwiseRubric(against="t64.minilm.bm25.small"),
    "pairwise_without_ties": PairwiseRubric(
        against="t64.minilm.bm25.small", ask="Which is kinder?", ties=False
    ),
    "criteria": CriteriaRubric(),
    "criteria_binary": CriteriaRubric(metrics=get_args(Preset), scale="binary", language="de"),
    "criteria_own": CriteriaRubric.model_validate(
        {"metrics": [], "criteria": {"tone": WORDED, "short": "Short?"}}
    ),
}
ADAPTER: TypeAdapter[Rubric] = TypeAdapter(Annotated[Rubric, OneOf(REGISTERED)])


def check_criteria_have_names_of_their_own(rubric: Rubric) -> None:
    names = [one.name for one in rubric.criteria]
    assert names
    assert len(set(names)) == len(names)
    assert names == [None] or all(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names if name)
    assert len({metric_name("r", name) for name in names}) == len(names)


def check_each_has_values_with_words_the_best_first(rubric: Rubric) -> None:
    for one in rubric.criteria:
        values = list(one.anchors)
        assert len(values) >= 2
        assert all(isinstance(value, float) and math.isfinite(value) for value in values)
        assert values == sorted(values, reverse=True)
        assert one.bounds == (values[-1], values[0])
        assert one.ask.strip()
        assert all(text.strip() for text in one.anchors.values())


def check_it_is_read_as_it_was_written(rubric: Rubric) -> None:
    written = json.loads(json.dumps(as_written(rubric)))
    found = ADAPTER.validate_python(written)
    assert found == rubric
    assert found.version == rubric.version
    assert found.criteria == rubric.criteria


def check_it_compares_if_it_says_with_what(rubric: Rubric) -> None:
    assert rubric.compares is (rubric.against is not None)


def check_the_version_is_of_what_is_read(rubric: Rubric) -> None:
    assert re.fullmatch("[0-9a-f]{12}", rubric.version)
    turned = rubric.model_copy(update={"shows_ground_truth": not rubric.shows_ground_truth})
    assert turned.version != rubric.version
    for name, field in type(rubric).model_fields.items():
        value = getattr(rubric, name)
        if isinstance(value, str) and field.annotation is str:
            assert rubric.model_copy(update={name: f"{value}x"}).version != rubric.version, name


CHECKS = [
    check_criteria_have_names_of_their_own,
    check_each_has_values_with_words_the_best_first,
    check_it_is_read_as_it_was_written,
    check_it_compares_if_it_says_with_what,
    check_the_version_is_of_what_is_read,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", KINDS)
def test_every_rubric_keeps_the_contract(name: str, check: Callable[[Rubric], None]) -> None:
    check(KINDS[name])


def test_every_kind_is_held_to_it() -> None:
    assert {one.kind for one in KINDS.values()} == set(REGISTERED.built_in) == set(RUBRICS.built_in)


def test_all_of_them_are_asked_of_a_queue(tmp_path: Path) -> None:
    queue = queue_of([item_of(n, rival="At dusk.") for n in range(12)], KINDS)
    write_queue(Home(tmp_path), queue)
    assert read_queue(Home(tmp_path), "tiny") == queue
    (first, *_) = showings(queue, "anna")
    asked = queue.asked(first.item.item_id)
    assert len(asked) == sum(len(one.criteria) for one in KINDS.values())
    assert len({one.score_id for one in scores_of(queue, "anna", first)}) == len(asked)


# Versions --------------------------------------------------------------------------------------------------


def read(tmp_path: Path, text: str) -> Rubric:
    (path := tmp_path / "rubric.yaml").write_text(text, encoding="utf-8")
    return ADAPTER.validate_python(load(path).data)


SAME = [
    (
        "points: {ask: Good?, anchors: {5: Right, 0: Wrong}}",
        "# a comment\npoints:\n  anchors:\n    0.0: Wrong  # a comment\n    '5': ' Right '\n  ask: Good?",
        "points: {ask: Good?, shows_ground_truth: true, anchors: {+5e0: Right, -0: Wrong}}",
    ),
    (
        "ordinal: {}",
        "ordinal: {scale: 5, ask: 'How good is the answer?'}",
        "ordinal: {anchors: {1: Of no use, 5: As good as it can be}}",
    ),
    ("binary: {}", "binary: {no: 'Wrong, or right in part', yes: Right}"),
    ("pairwise: {against: a.b.c.d}", "pairwise: {ties: true, against: a.b.c.d}"),
    (
        "criteria: {metrics: [detail], criteria: {tone: Kind?, form: Tidy?}}",
        "criteria: {criteria: {form: {ask: Tidy?}, tone: {scale: 5, ask: Kind?}}, metrics: [detail]}",
        "criteria: {metrics: [detail], language: en, scale: 5, "
        "criteria: {tone: Kind?, form: {ask: Tidy?, anchors: {1: Not at all, 5: Fully}}}}",
    ),
    ("criteria: {metrics: [detail, relevance]}", "criteria: {metrics: [relevance, detail]}"),
]
OTHERS = [
    "points: {ask: Good?, anchors: {5: Right, 0: Wrong.}}",
    "points: {ask: Good?, anchors: {4: Right, 0: Wrong}}",
    "points: {ask: Good?, anchors: {5: Right, 1: Half, 0: Wrong}}",
    "points: {ask: Good?, shows_ground_truth: false, anchors: {5: Right, 0: Wrong}}",
    "ordinal: {scale: 4}",
    "ordinal: {anchors: {1: Of no use, 3: In between, 5: As good as it can be}}",
    "binary: {yes: right}",
    "pairwise: {against: a.b.c.e}",
    "pairwise: {against: a.b.c.d, ties: false}",
    "criteria: {metrics: [detail], criteria: {tone: Kind?, form: tidy?}}",
    "criteria: {metrics: [detail], criteria: {form: Kind?, tone: Tidy?}}",
    "criteria: {metrics: [detail], scale: binary, criteria: {tone: Kind?, form: Tidy?}}",
    "criteria: {metrics: [detail, relevance], language: de}",
]


@pytest.mark.parametrize("texts", SAME, ids=lambda texts: texts[0][:30])
def test_another_way_to_write_the_same_is_the_same_version(texts: tuple[str, ...], tmp_path: Path) -> None:
    assert len({read(tmp_path, text).version for text in texts}) == 1


def test_another_word_is_another_version(tmp_path: Path) -> None:
    texts = [*(texts[0] for texts in SAME), *OTHERS]
    assert len({read(tmp_path, text).version for text in texts}) == len(texts)


# Hostile wordings ------------------------------------------------------------------------------------------


def test_markup_and_braces_are_words(tmp_path: Path) -> None:
    text = "<script>alert(1)</script> {{ 7 * 7 }} {0} %s \\ ' \" [x](javascript:y)"
    found = read(tmp_path, yaml.safe_dump({"points": {"ask": text, "anchors": {"1": text, "0": "No"}}}))
    (criterion,) = found.criteria
    assert (criterion.ask, criterion.anchors[1.0]) == (text, text)


def own_criterion(anchors: dict[str, str], scale: int | str) -> dict[str, Any]:
    return {"criteria": {"scale": scale, "criteria": {"tone": {"ask": "Good?", "anchors": anchors}}}}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"points": {"anchors": {"5": "Right"}}}, "at least 2"),
        ({"points": {"anchors": {str(n): "Right" for n in range(12)}}}, "at most 11"),
        ({"points": {"anchors": {"5": "Right", "5.0": "Wrong"}}}, "the value 5 has a second anchor"),
        ({"points": {"anchors": {5: "Right", "5": "Wrong"}}}, "the value 5 has a second anchor"),
        ({"points": {"anchors": {0.0: "Right", "-0": "Wrong"}}}, "the value 0 has a second anchor"),
        ({"points": {"anchors": {"nan": "Right", "0": "Wrong"}}}, "`nan` must be a number"),
        ({"points": {"anchors": {"inf": "Right", "0": "Wrong"}}}, "`inf` must be a number"),
        ({"points": {"anchors": {"1e999": "Right", "0": "Wrong"}}}, "`1e999` must be a number"),
        ({"points": {"anchors": {True: "Right", "0": "Wrong"}}}, "`True` must be a number"),
        ({"points": {"anchors": {"good": "Right", "0": "Wrong"}}}, "`good` must be a number"),
        ({"points": {"anchors": {"5": "", "0": "Wrong"}}}, "at least 1 character"),
        ({"points": {"anchors": {"5": " \n", "0": "Wrong"}}}, "at least 1 character"),
        ({"points": {"anchors": {"5": "x" * 1_000_000, "0": "Wrong"}}}, "at most 1000 characters"),
        ({"points": {"anchors": {"5": "a\x07b", "0": "Wrong"}}}, "U+0007"),
        ({"points": {"anchors": {"5": 5, "0": "Wrong"}}}, "valid string"),
        ({"points": {"anchors": ["Right", "Wrong"]}}, "valid dictionary"),
        ({"points": {"ask": "x" * 1_000_000}}, "at most 1000 characters"),
        (
            {"ordinal": {"scale": 5, "anchors": {"1": "Bad", "6": "Good"}}},
            "`6` is of no grade: they are 1 to 5",
        ),
        ({"ordinal": {"scale": 5, "anchors": {"1": "Bad", "4": "Good"}}}, "say what the grade 5 means"),
        (
            {"ordinal": {"anchors": {"1": "Bad", "2.5": "So", "5": "Good"}}},
            "`2.5` is of no grade",
        ),
        ({"ordinal": {"scale": 1}}, "greater than or equal to 2"),
        ({"pairwise": {}}, "required"),
        ({"pairwise": {"against": "small"}}, "match pattern"),
        ({"criteria": {"metrics": []}}, "name at least one metric"),
        ({"criteria": {"metrics": ["detail", "detail"]}}, "'detail' is listed twice"),
        ({"criteria": {"criteria": {"relevance": "Good?"}}}, "'relevance' is listed twice"),
        ({"criteria": {"criteria": {"Tone of it": "Good?"}}}, "match pattern"),
        (
            {
                "criteria": {
                    "scale": "binary",
                    "criteria": {"tone": {"ask": "Good?", "anchors": {"1": "y", "2": "n"}}},
                }
            },
            "`binary` has the anchors 1 and 0",
        ),
        (
            {"criteria": {"criteria": {"tone": {"ask": "Good?", "anchors": {"1": "y", "9": "n"}}}}},
            "`9` is of no grade",
        ),
        ({"criteria": {"criteria": {f"c{n}": "Good?" for n in range(13)}}}, "at most 12"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wording_that_cannot_be_is_refused(written: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ADAPTER.validate_python(written)
    assert said in str(caught.value)


# Proved against what breaks it -----------------------------------------------------------------------------


class Broken(Rubric):
    """A sound rubric, which the others spoil."""

    kind: ClassVar[str] = "broken"

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, "Good?", {1.0: "Yes", 0.0: "No"}),)


class Nameless(Broken):
    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return Broken.criteria.fget(self) * 2  # type: ignore[attr-defined]


class Empty(Broken):
    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return ()


class WorstFirst(Broken):
    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, "Good?", {0.0: "No", 1.0: "Yes"}),)


class OneValue(Broken):
    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, "Good?", {1.0: "Yes"}),)


class Endless(Broken):
    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, "Good?", {math.inf: "Yes", 0.0: "No"}),)


class Wordless(Broken):
    @property
    def criteria(self) -> tuple[Criterion, ...]:
        return (Criterion(None, "Good?", {1.0: " ", 0.0: "No"}),)


class Rivalless(Broken):
    compares: ClassVar[bool] = True


class Fixed(Broken):
    @property
    def version(self) -> str:
        return "0" * 12


BROKEN: list[tuple[type[Rubric], Callable[[Rubric], None]]] = [
    (Nameless, check_criteria_have_names_of_their_own),
    (Empty, check_criteria_have_names_of_their_own),
    (WorstFirst, check_each_has_values_with_words_the_best_first),
    (OneValue, check_each_has_values_with_words_the_best_first),
    (Endless, check_each_has_values_with_words_the_best_first),
    (Wordless, check_each_has_values_with_words_the_best_first),
    (Rivalless, check_it_compares_if_it_says_with_what),
    (Fixed, check_the_version_is_of_what_is_read),
]


@pytest.mark.parametrize(("broken", "check"), BROKEN, ids=lambda value: value.__name__)
def test_the_contract_finds_what_is_broken(broken: type[Rubric], check: Callable[[Rubric], None]) -> None:
    check(Broken())
    with pytest.raises(AssertionError):
        check(broken())
