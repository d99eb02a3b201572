"""Has a model say which texts refuse to answer, from their first sentences, several texts a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.judging.entailment.model_calls import EntailmentModel
from rag_assay.evals.judging.frames import frame_text
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import Structured
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import RETRYABLE, Status

MOST_TEXTS = 32  # of a prompt
_LONGEST = 2_000  # characters that are read of the first sentences


class RefusalVerdict(Strict):
    """Of one text, by its number."""

    number: int
    refusal: bool


class Verdicts(Strict):
    """The model's reply."""

    verdicts: Annotated[tuple[RefusalVerdict, ...], Field(max_length=MOST_TEXTS)]


class Opening(NamedTuple):
    """The first sentences of an answer or a ground truth."""

    text: str
    question_id: str | None


class Refusal(NamedTuple):
    """What came of one text.

    refused: None where there is no verdict
    replies: the calls that it was asked in; those of a prompt with several texts stand at its first
    """

    refused: bool | None
    status: Status
    reason: str | None
    replies: tuple[Reply, ...]


def opening(text: str, sentences: int) -> str:
    """Return the first sentences of a text as it is written.

    >>> opening("No. It is not known. Ask the harbour.", 2)
    'No. It is not known.'
    """
    places = sentence_places(text[: 4 * _LONGEST])[:sentences]
    return text[: places[-1][1]][:_LONGEST] if places else text[:_LONGEST]


def refusals(openings: Sequence[Opening], asking: EntailmentModel, size: int) -> list[Refusal]:
    """Ask of texts whether they refuse, so many a prompt, all prompts side by side.

    A reply counts only if it has one verdict for the number of each text. Where the reply to several texts
    cannot be used, each of them is asked by itself: none is lost for another's sake.
    """
    batches = [openings[at : at + size] for at in range(0, len(openings), size)]
    label = "looking for refusals"
    found = asking.each(lambda one: _asked(one, asking), batches, label)
    alone = [
        one
        for batch, reply in zip(batches, found, strict=True)
        if len(batch) > 1 and _is_unusable(reply)
        for one in batch
    ]
    again = iter(asking.each(lambda one: _asked([one], asking), alone, label))
    results: list[Refusal] = []
    for batch, reply in zip(batches, found, strict=True):
        if len(batch) > 1 and _is_unusable(reply):
            held = reply.replies
            for _ in batch:
                results += _read(next(again), 1, held)
                held = ()
        else:
            results += _read(reply, len(batch), ())
    return results


def _is_unusable(reply: Structured[Verdicts]) -> bool:
    return reply.value is None and reply.status not in RETRYABLE


def _asked(batch: Sequence[Opening], asking: EntailmentModel) -> Structured[Verdicts]:
    count = len(batch)
    texts = (frame_text(one.text, "text", number=number) for number, one in enumerate(batch, 1))
    return asking.ask(
        "refusals",
        {"texts": "\n".join(texts), "count": count},
        Verdicts,
        max_tokens=40 + 40 * count,
        question_id=batch[0].question_id if count == 1 else None,
        bounds={"Verdicts.verdicts": {"minItems": count, "maxItems": count}},
        check=lambda reply: _check(reply, count),
    )


def _check(reply: Verdicts, count: int) -> None:
    numbers = sorted(one.number for one in reply.verdicts)
    if numbers != list(range(1, count + 1)):
        raise ValueError(f"it has verdicts on the texts {numbers} in place of 1 to {count}, each once")


def _read(reply: Structured[Verdicts], count: int, before: tuple[Reply, ...]) -> list[Refusal]:
    """Return what a reply says of each of its texts, in their order.

    before: earlier replies, to be paid by the first
    """
    said = {one.number: one.refusal for one in reply.value.verdicts} if reply.value else {}
    replies = before + reply.replies
    return [
        Refusal(said.get(number), reply.status, reply.reason, replies if number == 1 else ())
        for number in range(1, count + 1)
    ]
