"""What judges ask, in words: our own by metric and language, and those of a study."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from rag_assay.evals.judging.contract import JudgedMetric, Need
from rag_assay.evals.judging.prompt_files import Language
from rag_assay.evals.word_lists import groups
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.recipe import Strict, error_at

_LISTS: dict[Language, Literal["english", "german"]] = {"en": "english", "de": "german"}

Shown = Literal["answer", "passages", "ground_truth"]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=2000)]
MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]


class OwnWording(Strict):
    """What a study asks of a case; yes, or a high grade, is good.

    ask: as the model reads it
    needs: what it is shown beside the question of the case; the answer unless said
    """

    ask: Words
    needs: Annotated[
        tuple[Shown, ...],
        Field(min_length=1),
        AfterValidator(lambda needs: tuple(sorted(set(needs)))),
    ] = ("answer",)


def _written_out(written: object) -> object:
    """Let the text stand for the wording."""
    return {"ask": written} if isinstance(written, str) else written


OwnWordings = Annotated[
    dict[MetricName, Annotated[OwnWording, BeforeValidator(_written_out)]], Field(max_length=50)
]
"""Metric -> what is asked for it: a text, or `{ask: …, needs: […]}`."""


def wording(topic: str, metric: str, language: Language) -> str:
    """Return what we ask for a metric of ours.

    topic: table of the word lists `judging`

    >>> wording("yes_no", "relevant", "de")
    'Beantwortet die Antwort die Frage?'
    """
    return str(groups("judging", _LISTS[language])[topic][metric])


def wordings_identity(topic: str, metrics: tuple[str, ...]) -> str:
    """Return the digest of what we ask for some metrics of ours, in any language."""
    return digest([wording(topic, metric, language) for metric in metrics for language in _LISTS])


def metrics_of(
    topic: str, needs: Mapping[str, frozenset[Need]], own: Mapping[str, OwnWording], value: str
) -> tuple[JudgedMetric, ...]:
    """Return metrics of ours, and then those of a study.

    topic: table of the word lists `judging` with ours
    needs: of ours
    value: what a value is, as the report says it ahead of what is asked
    """
    return tuple(
        JudgedMetric(name, wanted, about=f"{value}: “{ask}”")
        for name, wanted, ask in (
            *((name, some, wording(topic, name, "en")) for name, some in needs.items()),
            *((name, frozenset(one.needs), one.ask) for name, one in own.items()),
        )
    )


def check_names(metrics: tuple[str, ...], own: Collection[str], own_key: str) -> None:
    """Check that there is a metric, and each once.

    own: the names of those that a study words
    own_key: where it words them

    Raises:
        ValidationError: there is none, or one twice.
    """
    names = [*metrics, *own]
    if not names:
        raise error_at(("metrics",), f"name at least one metric, or word one of your own in `{own_key}`")
    for place, name in enumerate(names):
        if name in names[:place]:
            raise error_at((own_key if name in own else "metrics",), f"{name!r} stands there twice")
