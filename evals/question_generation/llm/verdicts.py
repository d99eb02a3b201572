"""What the model itself says of a question that it made: supported, known anyway, answered elsewhere?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.evals.query_transforms.rules.follow_up_cues import depends
from rag_assay.evals.question_generation.llm.candidates import (
    DocumentPiece,
    GenerationTask,
    QuestionDraft,
    Reason,
    RejectedQuestion,
)
from rag_assay.evals.question_generation.llm.frames import framed
from rag_assay.evals.question_generation.llm.nearest_pieces import Nearness
from rag_assay.evals.question_generation.llm.prompts import Verdict, language_name, prompt
from rag_assay.evals.question_generation.llm.reply_shapes import ClosedBookReply, VerdictReply
from rag_assay.evals.question_generation.llm.wording_rules import language_of, verdict_of
from rag_assay.evals.retrieval.question_words import content
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.structured import Shape
from rag_assay.warehouse.schemas import RETRYABLE, Status

BEST = 5  # passages that an unanswerable question is held against
AGREEING = 0.5  # F1 of the content words from which on two answers say the same
SAME_MEANING = 0.85  # cosine from which on they do
NEAR_WORDS = 1 / 3  # share of its content words that the best passages hold of a question that is on topic
_VERDICT_TOKENS, _ANSWER_TOKENS = 200, 160
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def failure_of(status: Status, reason: str | None, raw: str | None) -> RejectedQuestion:
    """Return why nothing can be made of a call that gave nothing usable."""
    detail = reason or f"the call ended as {status}"
    if status in RETRYABLE:
        return RejectedQuestion(Reason.CALL_FAILED, f"{status}: {detail}")
    if status is Status.TRUNCATED:
        return RejectedQuestion(Reason.TRUNCATED, detail)
    if status is Status.REFUSED:
        return RejectedQuestion(Reason.REFUSED, detail)
    return RejectedQuestion(Reason.EMPTY if not (raw or "").strip() else Reason.UNREADABLE, detail)


@dataclass(frozen=True)
class Verifier:
    """Asks the model about its own questions; every verdict but the right one drops a question.

    nearness: of the pieces of the corpus
    embed: texts -> unit vectors, shape (texts, dimensions)
    seed: goes to the model
    purpose: what the calls are made for
    """

    chat: ChatModel
    gateway: Gateway
    nearness: Nearness
    embed: Callable[[Sequence[str]], Matrix]
    seed: int
    purpose: Purpose

    def fault(self, draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
        """Return the first verdict that drops a draft; None: it may stay."""
        if draft.answer is None:
            return self._answered(draft)
        checks: list[Callable[[], RejectedQuestion | None]] = [
            lambda: self._unsupported(draft),
            lambda: self._known(draft, task),
        ]
        if task.kind == "multi_hop":
            checks.insert(1, lambda: self._one_suffices(draft))
        if task.kind == "follow_up":
            checks.insert(0, lambda: self._stands_alone(draft, task))
        return next((fault for check in checks if (fault := check()) is not None), None)

    def _unsupported(self, draft: QuestionDraft) -> RejectedQuestion | None:
        found = self._ask("supported", _quotes(draft.quotes) + _asked(draft), VerdictReply, _VERDICT_TOKENS)
        if isinstance(found, RejectedQuestion):
            return _doubtful(found, Reason.NOT_SUPPORTED)
        if found.verdict == "yes":
            return None
        return RejectedQuestion(Reason.NOT_SUPPORTED, f"{found.verdict}: {found.reason}")

    def _one_suffices(self, draft: QuestionDraft) -> RejectedQuestion | None:
        """Return why a question of two hops has one: a single quote supports its whole answer."""
        for number, quote in enumerate(draft.quotes, 1):
            found = self._ask("supported", _quotes([quote]) + _asked(draft), VerdictReply, _VERDICT_TOKENS)
            if isinstance(found, RejectedQuestion):
                return _doubtful(found, Reason.ONE_DOCUMENT_SUFFICES)
            if found.verdict == "yes":
                return RejectedQuestion(Reason.ONE_DOCUMENT_SUFFICES, f"quote {number} alone: {found.reason}")
        return None

    def _known(self, draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
        """Return why a question needs no document: the model answers it as well from memory."""
        language = language_name(task.pieces[0].document.language)
        asked = framed(draft.whole, "question")
        found = self._ask("closed_book", asked, ClosedBookReply, _ANSWER_TOKENS, language=language)
        if isinstance(found, RejectedQuestion):
            return found if found.reason is Reason.CALL_FAILED else None  # it knows nothing that can be read
        if found.known and self._agree(draft.answer or "", found.answer):
            return RejectedQuestion(
                Reason.KNOWN_WITHOUT_DOCUMENT, f"without a passage it says {found.answer!r:.200}"
            )
        return None

    def _agree(self, made: str, said: str) -> bool:
        """Return whether two answers say the same: the same verdict and numbers, and much the same words."""
        if not said.strip() or verdict_of(made, alone=False) != verdict_of(said, alone=False):
            return False
        if not set(_NUMBER.findall(made)) <= set(_NUMBER.findall(said)):
            return False
        if shared_words(made, said) >= AGREEING:
            return True
        vectors = self.embed([made, said])
        return bool(np.dot(vectors[0], vectors[1]) >= SAME_MEANING)

    def _answered(self, draft: QuestionDraft) -> RejectedQuestion | None:
        """Return why a question is not unanswerable: the corpus answers it, or is about other things."""
        best = self.nearness.best(draft.question, BEST)
        if _share(draft.question, best) < NEAR_WORDS:
            return RejectedQuestion(
                Reason.OFF_TOPIC, "the best passages of the corpus share hardly a word with it"
            )
        passages = "\n".join(framed(piece.text, "passage", number=n) for n, piece in enumerate(best, 1))
        asked = f"{passages}\n{framed(draft.question, 'question')}"
        found = self._ask("answered", asked, VerdictReply, _VERDICT_TOKENS)
        if isinstance(found, RejectedQuestion):
            return _doubtful(found, Reason.ANSWERED_BY_CORPUS)
        if found.verdict == "no":
            return None
        return RejectedQuestion(Reason.ANSWERED_BY_CORPUS, f"{found.verdict}: {found.reason}")

    def _stands_alone(self, draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
        """Return why a question is no follow-up; where the rules see one, the model is not asked."""
        if language_of(task) and depends(draft.question):
            return None
        conversation = "\n".join(f"- {turn}" for turn in draft.conversation)
        asked = f"{framed(conversation, 'conversation')}\n{framed(draft.question, 'question')}"
        found = self._ask("depends", asked, VerdictReply, _VERDICT_TOKENS)
        if isinstance(found, RejectedQuestion):
            return _doubtful(found, Reason.STANDS_ALONE)
        if found.verdict == "yes":
            return None
        return RejectedQuestion(Reason.STANDS_ALONE, f"{found.verdict}: {found.reason}")

    def _ask(
        self, name: Verdict, material: str, shape: type[Shape], max_tokens: int, **values: object
    ) -> Shape | RejectedQuestion:
        messages = prompt(name).messages({"material": material, **values})
        found = self.gateway.structured(
            self.chat,
            messages,
            shape,
            name=shape.__name__,
            max_tokens=max_tokens,
            seed=self.seed,
            purpose=self.purpose,
        )
        return found.value or failure_of(found.status, found.reason, found.reply.raw)


def _doubtful(fault: RejectedQuestion, reason: Reason) -> RejectedQuestion:
    """Return the reason of a check whose verdict cannot be read; a call that may pass later keeps its own."""
    if fault.reason is Reason.CALL_FAILED:
        return fault
    return RejectedQuestion(reason, f"the verdict is {fault.reason}: {fault.detail}")


def _quotes(quotes: Sequence[str]) -> str:
    return "".join(framed(quote, "quote", number=number) + "\n" for number, quote in enumerate(quotes, 1))


def _asked(draft: QuestionDraft) -> str:
    return f"{framed(draft.whole, 'question')}\n{framed(draft.answer or '', 'answer')}"


def shared_words(one: str, other: str) -> float:
    """Return the F1 of the content words of two answers.

    >>> round(shared_words("Above nine Beaufort.", "It stays above nine Beaufort"), 2)
    0.8
    """
    left, right = _words(one), _words(other)
    shared = len(left & right)
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def _words(text: str) -> set[str]:
    return {word.text.casefold() for word in content(text)}


def _share(question: str, pieces: Sequence[DocumentPiece]) -> float:
    """Return the share of a question's content words that stand in the pieces."""
    asked = _words(question)
    held: set[str] = set().union(*(_words(piece.text) for piece in pieces)) if pieces else set()
    return len(asked & held) / len(asked) if asked else 0.0
