"""The prompts of judges: which file is used for a case, and what it is given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from rag_assay.evals.generation.templates import Template, Values
from rag_assay.evals.judging.contract import JudgeCase, Need
from rag_assay.evals.judging.frames import frame_passages, quote_for_judge
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.gateway import Messages

LANGUAGES = ("en", "de")
"""Languages that the prompts are written in; cases of all others are judged in the first."""

Language = Literal["en", "de"]
FOLDER = Path(__file__).parent / "prompts"
_VERSION = "1"  # of how values are made of a case


@dataclass(frozen=True)
class JudgePrompt:
    """The files of one task, one a language.

    name: as in `yes_no` for `prompts/yes_no.en.j2`
    language: of the prompt's own text; None: the case's
    """

    name: str
    language: Language | None = None

    def identity(self) -> str:
        """Digest of the files that may be used."""
        codes = [self.language] if self.language else LANGUAGES
        return digest([_VERSION, [prompt_file(f"{self.name}.{code}").identity() for code in codes]])

    def messages(self, case: JudgeCase, shown: Collection[Need], **more: object) -> Messages:
        """Return the chat that asks about a case.

        shown: what the model sees beside the question
        more: values that only this task has, quoted already where they are not our own
        """
        template = prompt_file(f"{self.name}.{self.language_of(case)}")
        return template.messages({**values_of(case, shown), **more})

    def language_of(self, case: JudgeCase) -> Language:
        """Return the language in which a case is judged."""
        if self.language:
            return self.language
        return "de" if (case.language or "").lower()[:2] == "de" else "en"


def values_of(case: JudgeCase, shown: Collection[Need]) -> Values:
    """Return the variables of a prompt, quoted; what is not shown is None."""

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
    """Return a prompt by the name of its file, without `.j2`."""
    return Template.read(FOLDER / f"{name}.j2")
