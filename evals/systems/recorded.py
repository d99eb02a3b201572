"""Answers that a system gave before, read from a file: nothing is called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from rag_assay.assets.recipes.build_half import absolute
from rag_assay.evals.generation.contract import Answer, GenerationContext, Request
from rag_assay.evals.question_sets.readers.file_rows import file_rows, stamp_of
from rag_assay.evals.question_sets.readers.records import RAGAS, is_empty, listed, stable_id
from rag_assay.evals.systems.contract import NOT_RECORDED, System, SystemReply
from rag_assay.evals.systems.given_passages import (
    ANSWERS,
    PASSAGES,
    UnreadableError,
    read_passages,
    read_reply,
)
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import Status

_NAMES = {name for name, ours in RAGAS.items() if ours in {"id", "question"}}


class AnswerFacts(Strict):
    """What a recorded answer holds beside its text. reason: why there is no answer."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    reason: str | None = None
    model: str | None = None
    seconds: Annotated[float, Field(ge=0)] | None = None
    prompt_tokens: Annotated[int, Field(ge=0)] | None = None
    completion_tokens: Annotated[int, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0)] | None = None


class RecordedAnswer(AnswerFacts):
    """A line of a file of recorded answers, as `assay questions from-traces` writes it.

    conversation: the turns before, question, answer, question, …, the oldest first
    passages: None: it is not known what was read
    """

    question: str
    conversation: tuple[str, ...] = ()
    answer: str | None = None
    passages: list[JsonValue] | None = None


class _Row(NamedTuple):
    given: dict[str, Any]
    measured: AnswerFacts


Key = tuple[str, ...]
"""The questions of a conversation up to the one that is answered, or the id of a question."""


def key_of(question: str, conversation: Sequence[str]) -> Key:
    """Return the key of a recorded answer: its questions in order, case and spaces normalised."""
    return tuple(" ".join(one.split()).casefold() for one in (*conversation[0::2], question))


def lines_of(records: Iterable[RecordedAnswer]) -> str:
    """Return a file of recorded answers; of several to one question the last one."""
    last = {key_of(one.question, one.conversation): one for one in records}
    return "".join(
        f"{json.dumps(one.model_dump(mode='json', exclude_defaults=True), ensure_ascii=False)}\n"
        for one in last.values()
    )


class Recorded(System):
    """Takes answers and passages that a system gave before; nothing is called.

    A row has the id or text of its question (and the `conversation` before it), an answer (`answer` or
    `response`), passages (`passages`, `retrieved_contexts`, `contexts`), or both: a dataset of ragas is read
    as it is. `seconds`, `prompt_tokens`, `completion_tokens`, `usd` and `model` are kept; a `reason` says why
    there is no answer. A question without a row has the status `not_run`.

    file: JSON lines, JSON, CSV, Parquet, or a folder of a Hugging Face dataset
    answers: false: only its passages are measured
    """

    kind: ClassVar[str] = "recorded"

    file: str = Field(min_length=1)
    answers: bool = True

    def meaning(self) -> dict[str, JsonValue]:
        written = {name: one for name, one in super().meaning().items() if name != "file"}
        return {**written, "rows": _read(self._path, stamp_of(self._path))[0]}

    @property
    def _path(self) -> Path:
        return absolute(self.file, self._folder)

    @property
    def target(self) -> str:
        return Path(self.file).name

    @property
    def has_answers(self) -> bool:
        return self.answers

    def missing(self) -> str | None:
        try:
            _read(self._path, stamp_of(self._path))
        except InputError as error:
            return str(error)
        return None

    def calls_per_question(self) -> CallsEach:
        return CallsEach(0, 0)

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        _, rows = _read(self._path, stamp_of(self._path))
        return [self._recorded(rows, one) for one in requests]

    def _recorded(self, rows: Mapping[Key, _Row], asked: Request) -> Answer:
        row = rows.get((asked.question_id or "",)) or rows.get(key_of(asked.question, asked.conversation))
        if row is None:
            return Answer(Status.NOT_RUN, NOT_RECORDED)
        given, measured = row
        told = measured.model_dump(exclude={"reason"})
        try:
            text, passages = read_reply(given) if given else (None, None)
            found = SystemReply(text, None if passages is None else read_passages(passages))
        except UnreadableError as error:
            return Answer(Status.PARSE_FAILED, str(error), **told)
        if found.text is None and measured.reason:
            return Answer(Status.ERROR, measured.reason, **told)
        return self.read_answer(Answer(Status.OK, cached=True, **told), found)


@lru_cache(8)
def _read(path: Path, _stamp: tuple[Any, ...]) -> tuple[str, Mapping[Key, _Row]]:
    """Return digest and rows by id and question text; InputError: two rows answer one, or none is named."""
    by_id: dict[Key, _Row] = {}
    by_text: dict[Key, _Row] = {}
    for place, row in file_rows(path):
        told = {name: value for name, value in row.items() if not is_empty(value)}
        named = {RAGAS[name]: told[name] for name in RAGAS if name in told and name in _NAMES}
        question = str(named.get("question") or "")
        if not question and "id" not in named:
            raise InputError(f"{path}: {place}: it names no question: give it an `id` or a `question`")
        try:
            turns = [str(one) for one in listed(told["conversation"])] if "conversation" in told else []
            name = stable_id(named.get("id"), question, turns)
            measured = AnswerFacts(**{one: told[one] for one in AnswerFacts.model_fields if one in told})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise InputError(f"{path}: {place}: `{first['loc'][0]}`: {first['msg']}") from error
        except ValueError as error:
            raise InputError(f"{path}: {place}: {error}") from error
        kept = _Row({one: _value(told[one]) for one in (*ANSWERS, *PASSAGES) if one in told}, measured)
        if by_id.setdefault((name,), kept) != kept:
            raise InputError(f"{path}: {place}: a second answer to the question {name}; give each an `id`")
        if question:
            by_text.setdefault(key_of(question, turns), kept)
    said = {
        name: {**kept.given, **kept.measured.model_dump(exclude_none=True)} for (name,), kept in by_id.items()
    }
    return digest(said), {**by_text, **by_id}


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return listed(value)  # of a spreadsheet
        except ValueError:
            return value
    return value
