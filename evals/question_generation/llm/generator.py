"""Makes questions by a language model: each is written, held against the rules, and verified by the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.question_generation.llm.candidates import (
    GenerationTask,
    QuestionDraft,
    Reason,
    RejectedQuestion,
    TaskOutcome,
)
from rag_assay.evals.question_generation.llm.frames import framed
from rag_assay.evals.question_generation.llm.nearest_pieces import Nearness
from rag_assay.evals.question_generation.llm.prompts import SHAPES, language_name, prompt
from rag_assay.evals.question_generation.llm.verdicts import Verifier, failure_of
from rag_assay.evals.question_generation.llm.wording_rules import fault_of_words, quoted_words
from rag_assay.evals.question_generation.near_duplicates import NearDuplicates, chance_cosine
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway

Item = TypeVar("Item")
_SAMPLE = 64  # passages by which it is known how near unrelated texts lie
_TOKENS = 700  # of a question with its answer and quotes, as JSON
_TOKENS_OF_CONVERSATION = 1_200


@dataclass(frozen=True)
class Workshop:
    """What questions are made with.

    embed: texts -> unit vectors, shape (texts, dimensions); safe to use from many threads
    seed: goes to the model
    purpose: what the calls are made for
    progress: is told (what is being done, done, of)
    """

    chat: ChatModel
    gateway: Gateway
    nearness: Nearness
    embed: Callable[[Sequence[str]], Matrix]
    seed: int
    purpose: Purpose = Purpose("questions")
    progress: Callable[[str, int, int], None] = lambda _label, _done, _of: None


def make_questions(tasks: Sequence[GenerationTask], workshop: Workshop) -> list[TaskOutcome]:
    """Make the questions of a plan; return what came of each task, in their order.

    Every call is in the cache once it has ended: a run that was killed goes on where it was. Calls that cost
    are made last: what breaks a rule, or repeats another question, is not verified.
    """
    written = _in_turn("writing questions", lambda task: _written(task, workshop), tasks, workshop)
    distinct = _without_duplicates(written, tasks, workshop.embed)
    verifier = Verifier(
        workshop.chat,
        workshop.gateway,
        workshop.nearness,
        workshop.embed,
        workshop.seed,
        workshop.purpose,
    )
    left = [one for one in distinct if one.dropped is None]
    verified = iter(_in_turn("verifying questions", lambda one: _verified(one, verifier), left, workshop))
    return [one if one.dropped else next(verified) for one in distinct]


def _in_turn(
    label: str, ask: Callable[[Item], TaskOutcome], items: Sequence[Item], workshop: Workshop
) -> list[TaskOutcome]:
    """Return what is made of each item, in their order, with as many calls at once as the model takes."""
    found = []
    for number, one in enumerate(workshop.gateway.map(ask, items, workshop.chat), 1):
        found.append(one)
        workshop.progress(f"{label} by {workshop.chat.model}", number, len(items))
    return found


def _written(task: GenerationTask, workshop: Workshop) -> TaskOutcome:
    """Ask the model for a question; return it as it stands, with the first rule that it breaks."""
    if task.kind == "multi_hop" and len(task.pieces) < 2:
        return TaskOutcome(
            task, dropped=RejectedQuestion(Reason.NO_PARTNER, "no other document is near its passage")
        )
    shape = SHAPES[task.kind]
    language = language_name(task.pieces[0].document.language)
    values = {"material": _passages(task), "language": language, "wanted": task.wanted}
    found = workshop.gateway.structured(
        workshop.chat,
        prompt(task.kind).messages(values),
        shape,
        name=shape.__name__,
        max_tokens=_TOKENS_OF_CONVERSATION if task.kind == "follow_up" else _TOKENS,
        seed=workshop.seed,
        purpose=workshop.purpose,
    )
    if found.value is None:
        return TaskOutcome(task, dropped=failure_of(found.status, found.reason, found.reply.raw))
    draft = found.value.draft()
    if draft.quotes:
        quotes = quoted_words(draft, task)
        if isinstance(quotes, RejectedQuestion):
            return TaskOutcome(task, draft, quotes)
        draft = replace(draft, quotes=quotes)
    return TaskOutcome(task, draft, fault_of_words(draft, task))


def _passages(task: GenerationTask) -> str:
    """Return the passages of a task with the titles of their documents, as quoted data."""
    parts = []
    for number, piece in enumerate(task.pieces, 1):
        if piece.document.title:
            parts.append(framed(piece.document.title[:200], "title", number=number))
        parts.append(framed(piece.text, "passage", number=number))
    return "\n".join(parts)


def _without_duplicates(
    outcomes: Sequence[TaskOutcome], tasks: Sequence[GenerationTask], embed: Callable[[Sequence[str]], Matrix]
) -> list[TaskOutcome]:
    """Drop each question that repeats one before it, of those that no rule has dropped."""
    drafts = [one.draft.whole for one in outcomes if one.draft and not one.dropped]
    if not drafts:
        return list(outcomes)
    vectors = embed(drafts)
    passages = list(dict.fromkeys(task.pieces[0].text for task in tasks))[:_SAMPLE]
    kept = NearDuplicates(chance_cosine(embed(passages)))
    rows = iter(vectors)
    found = []
    for one in outcomes:
        if one.draft and not one.dropped:
            found.append(_compared(one, one.draft, kept, next(rows)))
        else:
            found.append(one)
    return found


def _compared(one: TaskOutcome, draft: QuestionDraft, kept: NearDuplicates, vector: Matrix) -> TaskOutcome:
    other = kept.like(draft.whole, vector)
    if other is not None:
        return replace(
            one, dropped=RejectedQuestion(Reason.NEAR_DUPLICATE, f"it asks what {other!r:.200} asks")
        )
    kept.keep(draft.whole, vector)
    return one


def _verified(one: TaskOutcome, verifier: Verifier) -> TaskOutcome:
    assert one.draft is not None  # noqa: S101 -- only a draft is verified
    return replace(one, dropped=verifier.fault(one.draft, one.task))


def reasons_of(outcomes: Sequence[TaskOutcome]) -> dict[str, int]:
    """Return how many questions were dropped for each reason, the most frequent first."""
    counts = Counter(one.dropped.reason.value for one in outcomes if one.dropped)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
