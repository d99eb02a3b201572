"""Names carry nothing over: a home that has seen other names shows what an empty one shows."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from rag_assay.evals.reporting.data import ReportData
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.warehouse.errors import InputError
from tests.fakes.tiny import TEXTS
from tests.fakes.town import OTHER_TEXTS, PLAIN, QUESTIONS, Town, Variant

pytestmark = pytest.mark.models

TWO: dict[str, Variant] = {
    "sources": {
        "docs": {"reader": "folder", "path": "docs"},
        "more": {"reader": "folder", "path": "more"},
    },
    "chunkings": {"one": {"tokens": {"size": 16}}, "other": {"tokens": {"size": 8}}},
    "embedders": {
        "one": {"model": "all-MiniLM-L6-v2"},
        "other": {"model": "all-MiniLM-L6-v2", "query_prefix": "lamp lamp lamp: "},
    },
    "retrievers": {"one": {"bm25": {"k": 1}}, "other": {"dense": {"k": 5}}},
    "generators": {
        "one": {"extractive": {"passages": 1, "max_tokens": 8}},
        "other": {"extractive": {"passages": 3, "min_score": 2}},
    },
}
OTHER_QUESTIONS = QUESTIONS.replace("id: noon", "id: noon2").replace("id: tickets", "id: tickets2")
OTHER_QUESTIONS = OTHER_QUESTIONS.replace("id: captain", "id: captain2").replace("id: lamp", "id: lamp2")


def shown(data: ReportData) -> dict[str, Any]:
    """Return all that the report shows but times: they differ from run to run."""
    frames = {
        "leaderboard": data.leaderboard,
        "questions": data.questions,
        "scores": data.scores,
        "answers": data.answers.drop("seconds"),
        "hits": data.hits,
        "losses": data.losses if data.losses is not None else pl.DataFrame(),
    }
    rows = {name: sorted(map(repr, frame.rows())) for name, frame in frames.items()}
    return {**rows, "study": data.study, "chunkings": set(data.chunkings), "recipes": data.recipes}


def with_two(axis: str) -> Variant:
    variant = {**PLAIN, axis: TWO[axis]}
    if axis == "sources":
        variant["corpus"] = {"name": "ferries", "sources": ["docs", "more"]}
    if axis == "embedders":
        variant["retrievers"] = {"dense": {"dense": {"k": 2}}}
    return variant


def swapped(variant: Variant, axis: str) -> Variant:
    """Give the two parts of an axis each other's name, each in its place."""
    (one, first), (other, second) = variant[axis].items()
    return {**variant, axis: {one: second, other: first}}


def crossed(variant: Variant, axis: str) -> Variant:
    """The same, but each part keeps its place in the file: only the names change places."""
    return {**variant, axis: dict(reversed(swapped(variant, axis)[axis].items()))}


def renamed(variant: Variant, axis: str) -> Variant:
    (one, first), (other, second) = variant[axis].items()
    return {**variant, axis: {f"{one}-new": first, other: second}}


def crossed_and_renamed(variant: Variant, axis: str) -> Variant:
    """One name means the other part, and the other part's name is new."""
    return renamed(crossed(variant, axis), axis)


AXES = ["chunkings", "embedders", "retrievers", "generators"]


@pytest.mark.parametrize("axis", AXES)
def test_other_names_at_an_axis_show_what_an_empty_home_shows(town: Town, axis: str) -> None:
    before = town.run(with_two(axis), "home")
    variant = crossed_and_renamed(with_two(axis), axis)
    after = town.run(variant, "home")
    assert not town.built & {"embeddings", "indexes", "rankings", "answers"}, "no content is new"
    assert shown(after) == shown(town.run(variant, "empty"))
    assert set(shown(after)["leaderboard"]) != set(shown(before)["leaderboard"])
    turned = town.run(swapped(with_two(axis), axis), "home")
    assert set(shown(turned)["leaderboard"]) != set(shown(before)["leaderboard"])
    assert shown(turned) == shown(town.run(crossed(with_two(axis), axis), "home")), "but in another order"
    assert not town.built & {"embeddings", "indexes", "rankings", "answers"}, "no content is new"
    assert shown(town.run(with_two(axis), "home")) == shown(before)
    assert not town.built, "a change that is taken back costs nothing"


def test_studies_alike_but_in_their_name_are_both_shown(town: Town) -> None:
    first = town.run(PLAIN, "home")
    second = town.run({**PLAIN, "study": "tiny2"}, "home", "tiny2.yaml")
    assert town.built == {"leaderboard"}
    assert {row["study"] for row in second.leaderboard.iter_rows(named=True)} == {"tiny2"}
    assert all(cell.startswith("tiny2.") for cell in second.leaderboard["cell"])
    assert shown(town.run(PLAIN, "home")) == shown(first)
    assert not town.built


def test_the_order_of_metrics_decides_the_ranks(town: Town) -> None:
    variant = with_two("retrievers")
    town.run(variant, "home")
    turned = {**variant, "metrics": variant["metrics"][::-1]}
    assert shown(town.run(turned, "home")) == shown(town.run(turned, "empty"))


def test_sources_that_exchange_their_names_exchange_their_documents(town: Town) -> None:
    variant = with_two("sources")
    town.run(variant, "home")
    (one, first), (other, second) = variant["sources"].items()
    turned = {**variant, "sources": {one: second, other: first}}
    moved = {"docs": OTHER_TEXTS, "more": TEXTS}
    assert shown(town.run(turned, "home", **moved)) == shown(town.run(turned, "empty", **moved))


def test_question_sets_that_exchange_their_files_exchange_their_questions(town: Town) -> None:
    names = ("ferry", "town")
    variant = {**PLAIN, "questions": [{"file": f"{name}.questions.yaml"} for name in names]}
    texts = (QUESTIONS, OTHER_QUESTIONS)
    for name, text in zip(names, texts, strict=True):
        (town.folder / f"{name}.questions.yaml").write_text(text)
    before = town.run(variant, "home")
    for name, text in zip(names, texts[::-1], strict=True):
        (town.folder / f"{name}.questions.yaml").write_text(text)
    after = town.run(variant, "home")
    assert shown(after) == shown(town.run(variant, "empty"))
    assert set(shown(after)["scores"]) == set(shown(before)["scores"])


def test_a_report_of_another_file_than_was_run_says_so(town: Town) -> None:
    variant = with_two("retrievers")
    town.run(variant, "home")
    chunkings = {"t16": {"tokens": {"size": 9}}}
    told = [
        (crossed(variant, "retrievers"), "rankings of tiny.t16.minilm."),
        (swapped(variant, "retrievers"), "rankings of tiny.t16.minilm."),
        (renamed(variant, "retrievers"), "the cell tiny.t16.minilm.one"),
        ({**variant, "chunkings": chunkings}, "chunks of ferries.t16 "),
        ({**variant, "metrics": variant["metrics"][::-1]}, "how the study tiny compares its cells "),
    ]
    for other, words in told:
        bench = town.bench_of(other, "home")
        for show in (report_data, stored_result):
            with pytest.raises(InputError, match=f"^{re.escape(words)}.*no longer.*`assay run"):
                show(bench.study, bench.home)
    assert town.run(variant, "home")
    assert not town.built


def test_a_report_of_questions_that_were_edited_since_says_so(town: Town) -> None:
    town.run(PLAIN, "home")
    path = town.folder / "ferry.questions.yaml"
    asked = path.read_text()
    path.write_text(asked.replace("When does the ferry leave", "At what hour does the ferry leave"))
    bench = town.bench_of(PLAIN, "home")
    for show in (report_data, stored_result):
        with pytest.raises(InputError, match=r"^the question set ferries\.ferry .*no longer.*`assay run"):
            show(bench.study, bench.home)
    path.write_text(asked)
    assert report_data(bench.study, bench.home).questions.height


def test_a_report_whose_documents_another_study_read_anew_says_so(town: Town) -> None:
    town.run(PLAIN, "home")
    town.run({**PLAIN, "study": "tiny2"}, "home", "tiny2.yaml", docs={**TEXTS, "ferry": "It sails at six."})
    bench = town.bench_of(PLAIN, "home")
    for show in (report_data, stored_result):
        with pytest.raises(InputError, match=r"^rankings of tiny\.t16.* other documents .*`assay run"):
            show(bench.study, bench.home)
    assert town.run(PLAIN, "home")


def test_a_report_of_other_question_sets_than_were_asked_says_so(town: Town) -> None:
    (town.folder / "town.questions.yaml").write_text(OTHER_QUESTIONS)
    one, other = ([{"file": f"{name}.questions.yaml"}] for name in ("ferry", "town"))
    town.run(PLAIN, "home")
    town.run({**PLAIN, "study": "tiny2", "questions": [*one, *other]}, "home", "tiny2.yaml")
    for questions in (other, [*one, *other]):
        bench = town.bench_of({**PLAIN, "questions": questions}, "home")
        with pytest.raises(InputError, match=r"^rankings of tiny\.t16.* questions .*`assay run"):
            report_data(bench.study, bench.home)
    town.run({**PLAIN, "questions": other}, "home")
    bench = town.bench_of({**PLAIN, "questions": one}, "home")
    with pytest.raises(InputError, match=r"^rankings of tiny\.t16.* questions .*`assay run"):
        stored_result(bench.study, bench.home)
