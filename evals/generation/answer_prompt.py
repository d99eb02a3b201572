"""The prompts for answers: which file is used for a request, and what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer

from rag_assay.evals.generation.contract import Passage, Request
from rag_assay.evals.generation.templates import Template, Values, bundled_template
from rag_assay.evals.question_sets.no_answer_sentence import UNANSWERED
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.quoting import quote_line, quote_text
from rag_assay.warehouse.recipe import Strict, in_identity

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages

LANGUAGES = ("en", "de")
"""Languages that our own prompts are written in; all others are answered by the first."""

LANGUAGE_NAMES = {
    "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fi": "Finnish", "fr": "French", "hu": "Hungarian", "it": "Italian", "nl": "Dutch", "pl": "Polish",
    "pt": "Portuguese", "ro": "Romanian", "sv": "Swedish",
}  # fmt: skip
_VERSION = "1"  # of how values are made of a request


class PromptOptions(Strict):
    """The prompt of a generator.

    language: of the instructions, en | de; default: the question's, or English
    domain: topic of the documents, as in `EU energy law`; questions about other topics are refused
    file: a template of your own (docs/grid.md), from the study's folder; it serves all languages
    """

    language: Literal["en", "de"] | None = None
    domain: Annotated[str, Field(min_length=2, max_length=500)] | None = None
    file: str | None = None

    @model_serializer(mode="wrap")
    def _by_content(
        self, dump: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> dict[str, str | None]:
        """Leave out what was not said; of identities the file's place too, whose content `Prompts` has."""
        left_out = {"file"} if in_identity(info) else set()
        return {
            name: value for name, value in dump(self).items() if value is not None and name not in left_out
        }

    @cached_property
    def own(self) -> Template | None:
        return Template.read(Path(self.file)) if self.file else None


@dataclass(frozen=True)
class Prompts:
    """The files of one task, one a language; name: of our own, `answer` for `prompts/answer.en.j2`"""

    name: str
    options: PromptOptions = field(default_factory=PromptOptions)

    def identity(self) -> str:
        """Digest of the files that may be used: changing another one changes no result."""
        texts = [one.identity() for one in self.files().values()]
        return digest([_VERSION, texts, UNANSWERED, LANGUAGE_NAMES])

    def files(self) -> dict[str, Template]:
        codes = [self.options.language] if self.options.language else LANGUAGES
        own = self.options.own
        files = (
            {own.path.name: own}
            if own
            else {f"{(one := f'{self.name}.{code}')}.j2": bundled_template(one) for code in codes}
        )
        return {"passages.j2": bundled_template("passages"), **files}

    def messages(self, request: Request, **more: object) -> Messages:
        """Return the chat that asks for an answer to a request.

        more: values that only this task has, quoted already

        Raises:
            InputError: the study's own template cannot be read or has a mistake.

        >>> asked = Request("Who?", "en", passages=(Passage("She did.</passages>", title="Log"),))
        >>> print(Prompts("answer").messages(asked)[1]["content"])
        <passages>
        <passage number="1" title="Log">
        She did.(/passages)
        </passage>
        </passages>
        <BLANKLINE>
        Question: Who?
        """
        wanted = self.options.language or (request.language or "").lower()
        code = wanted if wanted in LANGUAGES else LANGUAGES[0]
        template = self.options.own or bundled_template(f"{self.name}.{code}")
        return template.messages({**values_of(request, code, self.options.domain), **more})


def values_of(request: Request, language: str = "en", domain: str | None = None) -> dict[str, object]:
    code = (request.language or "").lower()
    return {
        "question": quote_text(request.question),
        "language": code or None,
        "language_name": LANGUAGE_NAMES.get(code),
        "refusal": UNANSWERED.get(code, UNANSWERED[language]),
        "domain": domain,
        "conversation": [quote_text(turn) for turn in request.conversation],
        "history": bundled_template("passages").render(
            "history", {"turns": _turns(request), "language": language}
        ),
        "passages": _passages(request.passages),
        "context": frame_passages(request.passages),
    }


def frame_passages(passages: Sequence[Passage]) -> str:
    return bundled_template("passages").render("context", {"passages": _passages(passages)})


def _passages(passages: Sequence[Passage]) -> list[dict[str, object]]:
    return [_values(passage.number or place, passage) for place, passage in enumerate(passages, start=1)]


def _turns(request: Request) -> list[dict[str, str]]:
    speakers = ("User", "Assistant")
    turns = ((speakers[place % 2], quote_line(turn)) for place, turn in enumerate(request.conversation))
    return [{"who": who, "text": text} for who, text in turns if text]


def _values(number: int, passage: Passage) -> dict[str, object]:
    line = {
        "title": passage.title,
        "section": " › ".join(passage.section),
        "date": (passage.date or "")[:10],
        "url": passage.url,
    }
    return {
        "number": number,
        "text": quote_text(passage.text),
        **{name: quote_line(value) if value else None for name, value in line.items()},
    }


def samples() -> list[Values]:
    passage = Passage("Text.", "c", "d", "Title", "https://x.example/", "2024-05-31", ("A", "B"), 0, 5, 1.0)
    full = Request("Question?", "en", ("Before?", "Yes."), (passage, Passage("Text.")))
    return [values_of(full, domain="ferries"), values_of(Request("Question?", passages=full.passages[1:]))]
