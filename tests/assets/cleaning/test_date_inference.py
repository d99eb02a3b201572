"""The date of a document by a language model: what is asked, what is believed, what becomes of the rest."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rag_assay.assets.cleaning.batches import DateReply, check_date, identity_of
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import DateBy
from tests.assets.test_documents import MONDAY, STORY, TUESDAY, Town
from tests.fakes.openai_server import FakeOpenAI, Received, answer, failure

TODAY = date(2024, 5, 6)
TEXT = "Notice of the harbour board,\n3 May 2024. The office opens at seven in the morning."


def reply(day: str | None, evidence: str | None) -> str:
    return json.dumps({"date": day, "evidence": evidence})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (reply(None, None), "the model found none"),
        (reply("May 2024", "3 May 2024"), "no day of the calendar: May 2024"),
        (reply("2024-02-30", "3 May 2024"), "no day of the calendar: 2024-02-30"),
        (reply("2024-W18-5", "3 May 2024"), "no day of the calendar: 2024-W18-5"),
        (reply("0024-05-03", "3 May 2024"), "no day of the calendar: 0024-05-03"),
        (reply("2024-05-07", "3 May 2024"), "in the future: 2024-05-07"),
        (reply("2024-05-03", "4 May 2024"), "the evidence does not stand in the text: 4 May 2024"),
        (reply("2024-05-03", ""), "the evidence does not stand in the text: "),
        (reply("2024-05-03", None), "the evidence does not stand in the text: "),
        (reply("2019-05-03", "3 May 2024"), "the evidence does not name the year 2019: 3 May 2024"),
    ],
)
def test_an_answer_that_cannot_be_believed_has_its_reason(given: str, reason: str) -> None:
    found = check_date(DateReply.model_validate_json(given), TEXT, TODAY)
    assert (found.day, found.reason) == (None, reason)


@pytest.mark.parametrize(
    "said", ["3 May 2024", '{"date": "2024-05-03"}', '{"date": 2024, "evidence": []}', "[1]"]
)
def test_an_answer_of_another_shape_gives_no_date(said: str, tmp_path: Path) -> None:
    with FakeOpenAI(respond=lambda _received: answer(said)) as server:
        asking = town(tmp_path, server)
        asking.crawl(PAGES, MONDAY)
        reasons = {facts_of["date_reason"] for _, facts_of in facts(asking).values()}
    assert reasons == {"openai/small: no JSON object with `date` and `evidence`"}


def test_an_answer_whose_evidence_stands_in_the_text_is_believed() -> None:
    said = DateReply(date="2024-05-03", evidence="harbour board, 3 May 2024")
    found = check_date(said, TEXT, TODAY)
    assert (found.day, found.evidence, found.reason) == ("2024-05-03", "harbour board, 3 May 2024", None)


def test_model_server_and_prompt_make_the_identity() -> None:
    one = DateBy(model="openai/a")
    others = [DateBy(model="openai/b"), DateBy(model="openai/a", api_base="http://127.0.0.1:1/v1")]
    assert identity_of(one) == identity_of(DateBy(model="openai/a"))
    assert identity_of(one) not in {identity_of(other) for other in others}


# ------------------------------------------------------------------------------------------- in the stage

DATED = "Notice of the harbour board of 3 May 2024. " + STORY
PAGES = {"dated": DATED.format("seven"), "undated": STORY.format("eight")}


def respond(received: Received) -> Any:
    head = received.body["messages"][1]["content"]
    if "3 May 2024" in head:
        return answer(reply("2024-05-03", "3 May 2024"))
    return answer(reply("2031-01-01", "eight in the morning"))


def town(path: Path, server: FakeOpenAI, model: str = "openai/small") -> Town:
    return Town(Home(path), language="en", date_by={"model": model, "api_base": server.api_base})


def facts(of: Town) -> dict[str, tuple[str | None, dict[str, Any]]]:
    rows = of.read("documents").select("url", "published_at", "metadata").iter_rows()
    return {url: (day, json.loads(metadata)) for url, day, metadata in rows}


def test_documents_without_a_date_are_asked_and_the_answer_is_checked(tmp_path: Path) -> None:
    with FakeOpenAI(respond=respond) as server:
        asking = town(tmp_path, server)
        asking.crawl(PAGES, MONDAY)
        found = facts(asking)
        day, said = found["dated"]
        assert day == "2024-05-03"
        assert (said["date_source"], said["date_evidence"]) == ("llm", "3 May 2024")
        day, said = found["undated"]
        assert (day, said["date_source"]) == (None, "none")
        assert said["date_reason"] == "openai/small: in the future: 2031-01-01"
        meta = asking.meta()
        assert (meta["dates_asked"], meta["dates_by_model"]) == (2, 1)
        assert meta["date_sources"] == {"llm": 1, "none": 1}
        (body,) = [one.body for one in server.requests if "3 May" in one.body["messages"][1]["content"]]
        assert body["temperature"] == 0.0
        assert body["max_tokens"] <= 200
        assert body["response_format"]["type"] == "json_schema"
        assert len(body["messages"][1]["content"]) < 2500
        paid_for = {(row["purpose"], row["study"], row["cell"]) for row in CallCache(Home(tmp_path)).rows()}
        assert paid_for == {("date_by", None, "town")}


def test_a_date_is_that_of_the_model_that_gave_it(tmp_path: Path) -> None:
    with FakeOpenAI(respond=respond) as server:
        own = {"api_base": server.api_base, "limits": {"retries": 0}}
        date_by = {
            "model": "openai/first",
            "api_base": "http://127.0.0.1:9/v1",
            "fallback": [{"model": "openai/small", **own}],
        }
        asking = Town(Home(tmp_path), language="en", date_by=date_by)
        asking.crawl(PAGES, MONDAY)
        _, said = facts(asking)["dated"]
        assert (said["date_source"], said["date_model"]) == ("llm", "openai/small")
        _, said = facts(asking)["undated"]
        assert said["date_reason"] == "openai/small: in the future: 2031-01-01"


def test_only_what_is_undated_is_asked_and_nothing_twice(tmp_path: Path) -> None:
    html = (
        "<html><head><meta property='article:published_time' content='2024-05-01'></head>"
        f"<body><article><h1>Harbour</h1><p>{STORY * 3}</p></article></body></html>"
    )
    with FakeOpenAI(respond=respond) as server:
        asking = town(tmp_path, server)
        asking.crawl({"https://a.example/1": html}, MONDAY, "text/html")
        (said,) = facts(asking).values()
        assert (said[0], said[1]["date_source"]) == ("2024-05-01", "meta")
        assert not server.requests
        asking.crawl(PAGES, MONDAY)
        asking.build()
        assert len(server.requests) == 2
        asking.crawl({**PAGES, "new": DATED.format("noon")}, TUESDAY)
        assert (asking.meta()["pages_cleaned"], asking.meta()["dates_asked"]) == (1, 1)
        assert len(server.requests) == 3, "the unchanged pages are known"


def test_another_model_is_asked_again_and_no_model_gives_no_date(tmp_path: Path) -> None:
    with FakeOpenAI(respond=respond) as server:
        town(tmp_path, server).crawl(PAGES, MONDAY)
        assert town(tmp_path, server).meta()["dates_asked"] == 2
        assert town(tmp_path, server, "openai/other").meta()["dates_asked"] == 2
        assert [one.body["model"] for one in server.requests].count("other") == 2
    off = Town(Home(tmp_path), language="en")
    found = facts(off)
    assert {day for day, _ in found.values()} == {None}
    assert {said["date_source"] for _, said in found.values()} == {"none"}
    assert "dates_asked" not in off.meta()


def test_a_call_that_fails_for_now_is_made_again_by_the_next_build(tmp_path: Path) -> None:
    def broken(_received: Received) -> Any:
        return failure(400, "no such model")

    from rag_assay.assets.engine.builder import build_key

    with FakeOpenAI(respond=broken) as server:
        asking = town(tmp_path, server)
        asking.crawl(PAGES, MONDAY)
        outcome = build_key(asking.stage, "town", asking.work)
        assert not outcome.ok
        assert str(outcome.error).startswith("2 of 2 calls for a date failed, first: error: ")
        artifact = outcome.artifact
        assert artifact is not None
        path = asking.work.store.folder("documents", artifact.identity) / "documents.parquet"
        documents = pl.read_parquet(path)
        assert documents["published_at"].to_list() == documents["page_key"].to_list() == [None, None]
        assert json.loads(documents["metadata"][0])["date_reason"] == "openai/small: error"
        server.respond = respond
        assert facts(asking)["dated"][0] == "2024-05-03"
        assert asking.meta()["pages_cleaned"] == 2


def test_a_dated_document_is_another_version(tmp_path: Path) -> None:
    off = Town(Home(tmp_path), language="en")
    off.crawl(PAGES, MONDAY)
    before = dict(off.read("documents").select("url", "version").iter_rows())
    with FakeOpenAI(respond=respond) as server:
        after = dict(town(tmp_path, server).read("documents").select("url", "version").iter_rows())
    assert before["dated"] != after["dated"]
