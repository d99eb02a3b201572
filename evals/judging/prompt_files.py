"""The prompts of judges: which file is used for a case, and what it is given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.templates import Template, Values
from rag_assay.evals.judging.contract import JudgeCase, JudgedMetric, Need
from rag_assay.evals.word_lists import groups
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.quoting import Frames, quote_line, quote_text
from rag_assay.warehouse.recipe import Strict, error_at

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages

TAGS = (
    "passage", "question", "answer", "truth", "ground_truth", "reference", "rival", "context", "statement",
    "sentence", "before", "premise", "hypothesis", "criterion", "text", "verdict",
)  # fmt: skip
"""The tags of all judges' prompts, each of which may stand with an `s` at its end."""

_FRAMES = Frames(*TAGS)


def quote_for_judge(text: str) -> str:
    return _FRAMES.quoted(quote_text(text))


def frame_text(text: str, tag: str, **facts: int) -> str:
    return _FRAMES.framed(quote_text(text), tag, **facts)


def frame_passages(passages: Sequence[Passage], tag: str = "passages") -> str:
    """
    >>> print(frame_passages([Passage("It sails.", title="The <b>Log</b>")]))
    <passages>
    <passage number="1" title="The (b)Log(/b)">
    It sails.
    </passage>
    </passages>
    """
    found = [f"<{tag}>"]
    for number, passage in enumerate(passages, 1):
        title = {"title": _FRAMES.quoted(quote_line(passage.title))} if passage.title else {}
        found.append(_FRAMES.framed(quote_text(passage.text), "passage", number=number, **title))
    return "\n".join([*found, f"</{tag}>"])


LANGUAGES = ("en", "de")
"""Languages that the prompts are written in; cases of all others are judged in the first."""

Language = Literal["en", "de"]
FOLDER = Path(__file__).parent / "prompts"
_VERSION = "1"  # of how values are made of a case


@dataclass(frozen=True)
class JudgePrompt:
    """The files of one task, one a language."""

    name: str
    language: Language | None = None

    def identity(self) -> str:
        codes = [self.language] if self.language else LANGUAGES
        return digest([_VERSION, [prompt_file(f"{self.name}.{code}").identity() for code in codes]])

    def messages(self, case: JudgeCase, shown: Collection[Need], **more: object) -> Messages:
        template = prompt_file(f"{self.name}.{self.language_of(case)}")
        return template.messages({**values_of(case, shown), **more})

    def language_of(self, case: JudgeCase) -> Language:
        if self.language:
            return self.language
        return "de" if (case.language or "").lower()[:2] == "de" else "en"


def values_of(case: JudgeCase, shown: Collection[Need]) -> Values:
    def value(need: Need, text: str | None) -> str | None:
        return quote_for_judge(text or "") if need in shown else None

    return {
        "question": quote_for_judge(case.question),
        "answer": value("answer", case.answer),
        "ground_truth": value("ground_truth", case.ground_truth),
        "rival": value("rival", case.rival),
        "passages": frame_passages(case.passages) if "passages" in shown else None,
    }


@cache
def prompt_file(name: str) -> Template:
    return Template.read(FOLDER / f"{name}.j2")


_LISTS: dict[Language, Literal["english", "german"]] = {"en": "english", "de": "german"}

Shown = Literal["answer", "passages", "ground_truth"]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=2000)]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class OwnWording(Strict):
    """What a study asks of a case; yes, or a high grade, is good.

    ask: as the model reads it
    needs: what it is shown beside the question of the case; default: the answer
    """

    ask: Words
    needs: Annotated[
        tuple[Shown, ...], Field(min_length=1), AfterValidator(lambda needs: tuple(sorted(set(needs))))
    ] = ("answer",)


def accept_text(written: object) -> object:
    return {"ask": written} if isinstance(written, str) else written


OwnWordings = Annotated[
    dict[MetricName, Annotated[OwnWording, BeforeValidator(accept_text)]], Field(max_length=50)
]
"""Metric -> its question: a text, or `{ask: …, needs: […]}`."""


def wording(topic: str, metric: str, language: Language) -> str:
    return str(groups("judging", _LISTS[language])[topic][metric])


def wordings_identity(topic: str, metrics: tuple[str, ...]) -> str:
    return digest([wording(topic, metric, language) for metric in metrics for language in _LISTS])


def metrics_of(
    topic: str, needs: Mapping[str, frozenset[Need]], own: Mapping[str, OwnWording], value: str
) -> tuple[JudgedMetric, ...]:
    return tuple(
        JudgedMetric(name, wanted, about=f"{value}: “{ask}”")
        for name, wanted, ask in (
            *((name, some, wording(topic, name, "en")) for name, some in needs.items()),
            *((name, frozenset(one.needs), one.ask) for name, one in own.items()),
        )
    )


def check_names(metrics: tuple[str, ...], own: Collection[str], own_key: str) -> None:
    names = [*metrics, *own]
    if not names:
        raise error_at(("metrics",), f"name at least one metric, or word one of your own in `{own_key}`")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise error_at((own_key if name in own else "metrics",), f"{name!r} is listed twice")
