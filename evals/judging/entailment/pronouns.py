"""Replaces pronouns by what they stand for, so that each sentence of a text can be judged by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field

from rag_assay.evals.judging.entailment.model_calls import EntailmentModel
from rag_assay.evals.judging.frames import frame_text
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import Structured, schema_only
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import RETRYABLE, Status

BEFORE = 2  # sentences that a prompt shows of those before its own
_GROWTH, _MORE = 3, 200  # a sentence grows by a factor, and characters, at most


class SentencesReply(Strict):
    """The model's reply: the sentences that it was shown, in their order."""

    sentences: Annotated[tuple[Annotated[str, schema_only(maxLength=1_500)], ...], Field(max_length=200)]


class Text(NamedTuple):
    """A text that was split.

    question: what it is about, which may say what a pronoun stands for
    """

    question: str
    sentences: tuple[str, ...]
    question_id: str | None


@dataclass(frozen=True)
class Resolved:
    """A text whose pronouns were replaced, or that could not be.

    sentences: those of a prompt whose reply cannot be used stand as they were written
    kept: so many of them
    reason: why they were kept; or why there is nothing
    failed: a call failed that a further run may get: the text cannot be judged now
    """

    sentences: tuple[str, ...]
    replies: tuple[Reply, ...] = ()
    kept: int = 0
    reason: str | None = None
    failed: Status | None = None


class _Batch(NamedTuple):
    text: int
    first: int
    sentences: tuple[str, ...]


def resolve_pronouns(texts: Sequence[Text], asking: EntailmentModel, size: int) -> list[Resolved]:
    """Replace the pronouns of texts, so many sentences a prompt at most, all prompts side by side.

    A prompt has sentences of one text only: what else is judged changes nothing. A reply that cannot be used
    (no JSON, another number of sentences, an empty or a far longer one) leaves its sentences as they were
    written, which is counted; where a call fails that may pass later, the text waits for it.
    """
    batches = [
        _Batch(number, first, text.sentences[first : first + size])
        for number, text in enumerate(texts)
        for first in range(0, len(text.sentences), size)
    ]
    replies = asking.each(lambda one: _asked(one, texts[one.text], asking), batches, "replacing pronouns")
    found: list[list[tuple[_Batch, Structured[SentencesReply]]]] = [[] for _ in texts]
    for batch, reply in zip(batches, replies, strict=True):
        found[batch.text].append((batch, reply))
    return [_put_together(one) for one in found]


def _asked(batch: _Batch, text: Text, asking: EntailmentModel) -> Structured[SentencesReply]:
    count = len(batch.sentences)
    before = text.sentences[max(0, batch.first - BEFORE) : batch.first]
    sentences = (frame_text(one, "sentence", number=number) for number, one in enumerate(batch.sentences, 1))
    return asking.ask(
        "pronouns",
        {
            "question": frame_text(text.question, "question"),
            "before": frame_text("\n".join(before), "before") if before else "",
            "sentences": "\n".join(sentences),
            "count": count,
        },
        SentencesReply,
        max_tokens=200 + sum(map(len, batch.sentences)),
        question_id=text.question_id,
        bounds={"SentencesReply.sentences": {"minItems": count, "maxItems": count}},
        check=lambda reply: _check(reply, batch.sentences),
    )


def _check(reply: SentencesReply, written: Sequence[str]) -> None:
    if len(reply.sentences) != len(written):
        raise ValueError(f"it has {len(reply.sentences)} sentences in place of {len(written)}")
    for number, (new, old) in enumerate(zip(reply.sentences, written, strict=True), 1):
        if not new.strip():
            raise ValueError(f"sentence {number} is empty")
        if len(new) > _GROWTH * len(old) + _MORE:
            raise ValueError(f"sentence {number} has {len(new)} characters in place of {len(old)}")


def _put_together(parts: Sequence[tuple[_Batch, Structured[SentencesReply]]]) -> Resolved:
    sentences: list[str] = []
    replies: list[Reply] = []
    reason, failed, kept = None, None, 0
    for batch, found in parts:
        replies += found.replies
        if found.value is not None:
            sentences += [one.strip() for one in found.value.sentences]
            continue
        sentences += batch.sentences
        kept += len(batch.sentences)
        if failed is None:
            reason = f"{found.status}: {found.reason}"
            failed = found.status if found.status in RETRYABLE else None
    return Resolved(tuple(sentences), tuple(replies), kept, reason, failed)
