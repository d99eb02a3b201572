"""Answers that a system gave before, read from a file: nothing is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, JsonValue

from rag_assay.assets.recipes.build_half import absolute
from rag_assay.evals.generation.contract import Answer, GenerationContext, Request
from rag_assay.evals.question_sets.readers.file_rows import file_rows, stamp_of
from rag_assay.evals.question_sets.readers.records import RAGAS, is_empty, listed, stable_id
from rag_assay.evals.systems.contract import NOT_RECORDED, System, SystemReply
from rag_assay.evals.systems.given_passages import UnreadableError, read_passages
from rag_assay.evals.systems.given_replies import ANSWERS, PASSAGES, read_reply
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.replies import Completion
from rag_assay.warehouse.schemas import Status

Rows = Mapping[str, Mapping[str, Any]]
"""Question id -> the row of its answer."""
_NAMES = {name for name, ours in RAGAS.items() if ours in {"id", "question", "conversation"}}


class Recorded(System):
    """Answers and passages that a system gave before.

    A row has the id or the text of its question, an answer (`answer` or `response`), passages (`passages`,
    `retrieved_contexts` or `contexts`), or both: a dataset of ragas is read as it is.

    file: JSON lines, JSON, CSV, Parquet, or a folder of a Hugging Face dataset
    answers: false: its passages are measured alone
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

    def calls_per_question(self) -> CallsEach:
        return CallsEach(0, 0)

    def generate(self, requests: Sequence[Request], context: GenerationContext) -> list[Answer]:
        _, rows = _read(self._path, stamp_of(self._path))
        return [self._recorded(rows, one) for one in requests]

    def _recorded(self, rows: Rows, asked: Request) -> Answer:
        by_text = stable_id(None, asked.question, list(asked.conversation))
        row = rows.get(asked.question_id or "") or rows.get(by_text)
        if row is None:
            return Answer(Status.NOT_RUN, NOT_RECORDED)
        try:
            return self.answer_of(self.read(row))
        except UnreadableError as error:
            return Answer(Status.PARSE_FAILED, str(error))

    def read(self, given: object) -> SystemReply:
        text, passages = read_reply(given)
        return SystemReply(text, None if passages is None else read_passages(passages))

    def request(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        raise NotImplementedError("nothing is called")

    def send(self, request: dict[str, JsonValue], timeout: float, context: GenerationContext) -> Completion:
        raise NotImplementedError("nothing is called")


@lru_cache(8)
def _read(path: Path, _stamp: tuple[Any, ...]) -> tuple[str, Rows]:
    """Return the digest and the rows of a file, each under its id and under the text of its question.

    Raises:
        InputError: two rows answer one question, or a row names none.
    """
    by_id: dict[str, dict[str, Any]] = {}
    by_text: dict[str, dict[str, Any]] = {}
    for place, row in file_rows(path):
        told = {name: value for name, value in row.items() if not is_empty(value)}
        named = {RAGAS[name]: told[name] for name in RAGAS if name in told and name in _NAMES}
        question = str(named.get("question") or "")
        if not question and "id" not in named:
            raise InputError(f"{path}: {place}: it names no question: give it an `id` or a `question`")
        try:
            name = stable_id(named.get("id"), question, [])
        except ValueError as error:
            raise InputError(f"{path}: {place}: {error}") from error
        kept = {one: _value(told[one]) for one in (*ANSWERS, *PASSAGES) if one in told}
        if by_id.setdefault(name, kept) != kept:
            raise InputError(f"{path}: {place}: a second answer to the question {name}; give each an `id`")
        if question:
            by_text.setdefault(stable_id(None, question, []), kept)
    return digest(by_id), {**by_text, **by_id}


def _value(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return listed(value)  # of a spreadsheet
        except ValueError:
            return value
    return value
