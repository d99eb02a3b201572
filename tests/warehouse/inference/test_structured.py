"""JSON by a pydantic class: the schema that is sent, and what is made of what comes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_model import ChatModel, TokenPrice
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.structured import LONGEST_PROSE, read_json, response_format_of, schema_only
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.openai_server import FakeOpenAI, answer, failure

MESSAGES = [{"role": "user", "content": "Who?"}]


class Person(BaseModel):
    """Somebody; the docstring is not part of the schema."""

    name: Annotated[str, Field(min_length=1, max_length=20)]
    role: Literal["keeper", "captain"] = "keeper"
    born: int | None = None


class Crew(BaseModel):
    people: Annotated[tuple[Person, ...], Field(min_length=1, max_length=3)]
    sure: bool
    note: Annotated[str, schema_only(maxLength=5)]


def schema_of(shape: type[BaseModel], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = response_format_of(shape, "x", **more)["json_schema"]["schema"]
    return found


def test_a_schema_is_closed_and_bounded_and_holds_no_more_than_servers_know() -> None:
    whole = response_format_of(Crew, "crew")
    assert (whole["type"], whole["json_schema"]["name"]) == ("json_schema", "crew")
    assert whole["json_schema"]["strict"] is True
    assert schema_of(Crew) == {
        "type": "object",
        "properties": {
            "people": {
                "type": "array",
                "minItems": 1,
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "maxLength": 20},
                        "role": {"type": "string", "enum": ["keeper", "captain"]},
                        "born": {"type": ["integer", "null"]},
                    },
                    "required": ["name", "role", "born"],
                    "additionalProperties": False,
                },
            },
            "sure": {"type": "boolean"},
            "note": {"type": "string", "maxLength": 5},
        },
        "required": ["people", "sure", "note"],
        "additionalProperties": False,
    }


def test_bounds_of_one_call_go_into_the_schema_of_that_call_only() -> None:
    before = schema_of(Crew)
    named = schema_of(Crew, bounds={"Crew.people": {"maxItems": 1}, "Person.name": {"enum": ["Ida"]}})
    assert named["properties"]["people"]["maxItems"] == 1
    assert named["properties"]["people"]["items"]["properties"]["name"] == {"type": "string", "enum": ["Ida"]}
    assert schema_of(Crew) == before


class Endless(BaseModel):
    text: str


class Many(BaseModel):
    numbers: list[int]


class Either(BaseModel):
    value: int | Annotated[str, Field(max_length=3)]


class Loose(BaseModel):
    value: dict[str, int]


class Tree(BaseModel):
    kids: Annotated[tuple[Tree, ...], Field(max_length=2)]


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (Endless, "Endless.text: bound this string"),
        (Many, "Many.numbers: bound this array"),
        (Either, "Either.value: a value is of one type, or null"),
        (Tree, "a shape cannot hold itself"),
    ],
)
def test_what_small_models_would_fill_without_end_is_no_shape(shape: type[BaseModel], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        response_format_of(shape, "x")


def structured(
    server: FakeOpenAI,
    home: Path,
    budget: Budget | None = None,
    price: TokenPrice | None = None,
    **more: Any,
) -> Any:
    chat = ChatModel(model="openai/x", api_base=server.api_base, price=price)
    with Gateway(Home(home), retries=0, budget=budget) as gateway:
        return gateway.structured(chat, MESSAGES, Crew, name="crew", purpose=Purpose("judging"), **more)


GOOD = {"people": [{"name": "Ida"}], "sure": True, "note": "longer than five"}


def test_json_of_the_shape_becomes_an_object(server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer(json.dumps(GOOD)))
    found = structured(server, tmp_path)
    assert (found.status, found.reason) == (Status.OK, None)
    assert found.value.people[0].role == "keeper"
    assert found.value.note == "longer than five", "such a bound is the server's, not the reader's"
    assert server.requests[0].body["response_format"] == response_format_of(Crew, "crew")
    again = structured(server, tmp_path)
    assert (again.value, again.reply.cached) == (found.value, True)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("No JSON.", "Expecting value"),
        ("[" * 5_000, "nested too deeply"),
        ("[1]", "Input should be a valid dictionary"),
        ("{}", "people: Field required"),
        (json.dumps({**GOOD, "people": []}), "people: Tuple should have at least 1 item"),
        (
            json.dumps({**GOOD, "people": [{"name": "a \ud800"}]}),
            "people.0.name: Input should be a valid string",
        ),
        (json.dumps({**GOOD, "sure": None}), "sure: Input should be a valid boolean"),
    ],
    ids=lambda value: value[:20],
)
def test_another_shape_is_a_typed_failure_with_its_text(
    said: str, reason: str, server: FakeOpenAI, tmp_path: Path
) -> None:
    server.add(answer(said), answer(said))
    found = structured(server, tmp_path)
    assert (found.value, found.status) == (None, Status.PARSE_FAILED)
    assert found.reason.count(reason) == 2
    assert found.reply.raw == said
    assert found.reply.status is Status.OK, "the call itself was good, and is not made again"
    assert structured(server, tmp_path).reason == found.reason
    assert len(server.requests) == 2


@pytest.mark.parametrize("said", ["Ida, I think.", '{"people": ', "", " \n", None, "x" * 9_000])
def test_what_cannot_be_read_is_shown_to_the_model_which_is_asked_once_more(
    said: str | None, server: FakeOpenAI, tmp_path: Path
) -> None:
    server.add(answer(said), answer(json.dumps(GOOD), prompt_tokens=30, completion_tokens=9))
    found = structured(server, tmp_path)
    assert (found.status, found.reason, found.value.sure) == (Status.OK, None, True)
    first, second = server.requests
    *before, shown, told = second.body["messages"]
    assert before == first.body["messages"] == MESSAGES
    assert shown == {"role": "assistant", "content": (said or "").strip()[:4_000] or "(nothing)"}
    assert told["role"] == "user"
    assert "cannot be used" in told["content"] or "empty text" in told["content"]
    others = [{key: one for key, one in sent.body.items() if key != "messages"} for sent in (first, second)]
    assert others[0] == others[1], "the same schema, bounds and limit"
    assert (found.reply.prompt_tokens, found.reply.completion_tokens) == (11 + 30, 7 + 9)
    assert found.reply.raw == json.dumps(GOOD)
    again = structured(server, tmp_path)
    assert (again.value, again.reply.cached, len(server.requests)) == (found.value, True, 2)
    paid = list(CallCache(Home(tmp_path)).rows())
    assert len(paid) == 2
    assert {row["purpose"] for row in paid} == {"judging"}


def test_the_first_call_is_that_of_before(server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer("No JSON."), answer(json.dumps(GOOD)))
    first, _ = structured(server, tmp_path).replies
    chat = ChatModel(model="openai/x", api_base=server.api_base)
    with Gateway(Home(tmp_path)) as gateway:
        plain = gateway.ask(chat, MESSAGES, response_format=response_format_of(Crew, "crew"))
    assert (plain.call_id, plain.cached, plain.text) == (first.call_id, True, "No JSON.")


def test_a_second_try_that_fails_for_now_is_made_again_and_the_first_is_not(
    server: FakeOpenAI, tmp_path: Path
) -> None:
    server.add(answer("No JSON."), failure(503, "overloaded"), answer(json.dumps(GOOD)))
    found = structured(server, tmp_path)
    assert (found.value, found.status, found.reply.raw) == (None, Status.ERROR, "No JSON.")
    assert "overloaded" in found.reason
    assert "Expecting value" in found.reason
    assert structured(server, tmp_path).value is not None
    assert len(server.requests) == 3


def test_a_second_try_that_was_cut_is_not_read(server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer("No JSON."), answer(json.dumps(GOOD), finish_reason="length"))
    found = structured(server, tmp_path)
    assert (found.value, found.status) == (None, Status.TRUNCATED)


def test_a_second_try_is_paid_from_the_budget_too(server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer("No JSON."))
    found = structured(server, tmp_path, budget=Budget(0.001), price=TokenPrice(read=1000, written=1000))
    assert (found.value, found.status) == (None, Status.OVER_BUDGET)
    assert len(server.requests) == 1


def test_a_check_of_the_caller_has_the_last_word(server: FakeOpenAI, tmp_path: Path) -> None:
    def nobody_called_ida(crew: Crew) -> None:
        if crew.people[0].name == "Ida":
            raise ValueError("Ida is ashore")

    server.add(answer(json.dumps(GOOD)), answer(json.dumps(GOOD)))
    found = structured(server, tmp_path, check=nobody_called_ida)
    assert (found.value, found.status) == (None, Status.PARSE_FAILED)
    assert "Ida is ashore" in found.reason


def test_a_cut_or_failed_reply_is_not_read(server: FakeOpenAI, tmp_path: Path) -> None:
    server.add(answer(json.dumps(GOOD), finish_reason="length"))
    cut = structured(server, tmp_path)
    assert (cut.value, cut.status, cut.reply.raw) == (None, Status.TRUNCATED, json.dumps(GOOD))
    assert len(server.requests) == 1, "with the same limit it would be cut again"
    server.add(failure(401, "no"))
    refused = structured(server, tmp_path, max_tokens=9)
    assert (refused.value, refused.status) == (None, Status.ERROR)
    assert refused.reason == "the server answered 401 (Unauthorized): no"


# JSON that is fenced, or among prose ------------------------------------------------------------------------


class Grade(BaseModel):
    grade: int
    reason: str = ""


GRADE = Grade(grade=4, reason='Short: "{" and "```json" and ünï 漢字.')
WRITTEN = json.dumps(GRADE.model_dump(), ensure_ascii=False)


@pytest.mark.parametrize(
    "text",
    [
        WRITTEN,
        f"\ufeff{WRITTEN}\r\n",
        f"```json\n{WRITTEN}\n```",
        f"```\n```json\n{WRITTEN}\n```\n```",
        f"````markdown\n```JSON\n{json.dumps(GRADE.model_dump(), indent=2)}\n```\n````",
        f"Here you are: {WRITTEN} I hope this helps {{smile}}.",
        f"Voilà {{le}} verdict : {WRITTEN}",
        f"判定：{WRITTEN}。以上",
        f"الحكم: {WRITTEN}",
        f'The form is {{grade: N}}, or {{"grade": N}}. {WRITTEN}',
        f"An open {{ brace. {WRITTEN} And another {{",
        f"{WRITTEN}\n{json.dumps(GRADE.model_dump(), indent=2)}",
        f"[{WRITTEN}]",
        json.dumps({**GRADE.model_dump(), "confidence": 0.9}) + " Done.",
        f'It has {{"points": 3}}. {WRITTEN}',
        WRITTEN + " " * LONGEST_PROSE,
        "word " * 30_000 + WRITTEN,
    ],
    ids=range(17),
)
def test_the_only_object_of_the_shape_is_read(text: str) -> None:
    assert read_json(text, Grade) == GRADE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("4", "valid dictionary"),
        (f'{WRITTEN} {{"grade": 2}}', "several JSON objects that differ"),
        ('{"grade": 4,}', "Expecting property name|Illegal trailing comma"),
        ('{"grade": 4, "more": [1,]}', "Expecting value|Illegal trailing comma"),
        ("{'grade': 4}", "Expecting property name"),
        ('{"grade": 4', "Expecting ',' delimiter"),
        ('```json\n{"verdicts": [{"grade": 4}, {"gra', "Expecting value"),
        ('{"verdicts": [{"grade": 4}, {"grade": 2}],}', "Expecting property name|Illegal trailing comma"),
        ('[{"grade": 4}, {"gra', "Expecting value|Unterminated string"),
        ('Said: {"verdicts": {"grade": 4}, "more": NaN}', "Expecting value"),
        ('Said: {"verdict": {"grade": 4}}', "grade\n  Field required"),
        ('{"grade": NaN}', "nan|NaN"),
        ('{"grade": 4, "more": -Infinity}', "-Infinity"),
        ('{"grade": 1e999}', "1e999"),
        ('{"grade": 4, "grade": 2}', "a key stands twice"),
        ("Use {} here.", "Field required"),
        ("{" * 5_000, "Expecting property name"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a" ' * 40_000, "Expecting ':' delimiter"),
        ("{ " * 100_000 + WRITTEN, "Expecting property name"),
        ("word " * 200_000 + WRITTEN, "Expecting value"),
        ("word " * 200_000, "Expecting value"),
    ],
    ids=range(24),
)
@pytest.mark.timeout(30)
def test_what_is_no_json_or_may_mean_two_things_is_not_read(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_json(text, Grade)


def test_a_shape_that_asks_for_nothing_is_not_found_in_any_braces() -> None:
    class Anything(BaseModel):
        note: str = ""

    assert read_json("{}", Anything) == Anything()
    with pytest.raises(ValueError, match="Expecting value"):
        read_json('Use {} or {"x": 1}.', Anything)


def test_fenced_json_is_one_call_and_its_text_is_kept(server: FakeOpenAI, tmp_path: Path) -> None:
    said = f"Sure!\n```json\n{json.dumps(GOOD)}\n```"
    server.add(answer(said))
    found = structured(server, tmp_path)
    assert (found.status, found.value.people[0].name, found.reply.raw) == (Status.OK, "Ida", said)
    assert len(server.requests) == 1
