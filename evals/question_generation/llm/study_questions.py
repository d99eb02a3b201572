"""Makes questions about the documents of a study, and the review file that a person reads them in."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.question_generation.llm.candidates import (
    Document,
    DocumentPiece,
    Kind,
    Reason,
    TaskOutcome,
)
from rag_assay.evals.question_generation.llm.corpus_pieces import (
    corpus_frame,
    documents_of,
    pieces_of,
    urls_that_repeat,
)
from rag_assay.evals.question_generation.llm.generator import Workshop, make_questions, reasons_of
from rag_assay.evals.question_generation.llm.nearest_pieces import Nearness
from rag_assay.evals.question_generation.llm.prompts import prompts_identity
from rag_assay.evals.question_generation.llm.task_plan import plan, stratify_pieces
from rag_assay.evals.question_generation.review import NoQuestion, ReviewedQuestion, ReviewFile, ReviewPassage
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.redaction import without_key

CODE_VERSION = "1"
DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Order:
    """What is wanted.

    chat: the model, how it is asked, and what it may cost
    n: how many questions the model is to write; some are dropped
    kinds: their types, in turn
    seed: another one draws other passages
    """

    chat: ChatModel
    n: int
    kinds: tuple[Kind, ...]
    seed: int


@dataclass(frozen=True)
class GenerationSummary:
    """What came of an order.

    file: what is written for review, but for its place
    tried: questions that the model was asked for
    kept: type -> questions that are left
    faults: reason -> questions that it has dropped
    unfinished: those that a failed call has dropped; the same order goes on with them
    usd: spent now, calls of the cache not counted
    """

    file: ReviewFile
    tried: int
    kept: Counter[str]
    faults: dict[str, int]
    usd: float

    @property
    def unfinished(self) -> int:
        """Questions whose calls have failed in a way that may pass."""
        return self.faults.get(Reason.CALL_FAILED, 0)


def make_for_study(
    study: Study, order: Order, name: str, study_is: str, work: BuildContext
) -> GenerationSummary:
    """Make questions about a study's documents as they are now.

    Args:
        study: whose documents.
        order: what is wanted.
        name: of the question set.
        study_is: how the review file names the study.
        work: of the run; its gateway keeps every call.

    Raises:
        InputError: the documents are not there, or none has a passage that tells enough.
    """
    frame = corpus_frame(study, work)
    pieces = pieces_of(frame, work)
    embed = _embed(study, work)
    drawn = stratify_pieces(pieces, order.seed)
    if not drawn:
        raise InputError(f"{study.path}: no document has a passage that is long enough to ask about")
    nearness = Nearness(pieces, embed)
    budget = Budget(None if order.chat.is_local else order.chat.budget_usd)
    gateway = work.resource(RunResources).gateway(budget)
    purpose = Purpose("questions", study.study)
    workshop = Workshop(order.chat, gateway, nearness, embed, order.seed, purpose, work.progress)
    tasks = plan(drawn, order.kinds, order.n, nearness.partner)
    outcomes = make_questions(tasks, workshop)
    file = review_of(outcomes, documents_of(frame), name).model_copy(
        update={"study": study_is, "made_by": _made_by(order)}
    )
    kept: Counter[str] = Counter(one.task.kind for one in outcomes if not one.dropped)
    return GenerationSummary(file, len(tasks), kept, reasons_of(outcomes), gateway.spent_usd)


def _made_by(order: Order) -> dict[str, Any]:
    recipe = order.chat.meaning()
    if order.chat.api_base:
        recipe["api_base"] = without_key(order.chat.api_base)
    return {
        **recipe,
        "n": order.n,
        "types": list(order.kinds),
        "drawn_by_seed": order.seed,
        "prompts": prompts_identity(),
        "code_version": CODE_VERSION,
    }


def _embed(study: Study, work: BuildContext) -> Callable[[Sequence[str]], Matrix]:
    """Return what embeds texts, by the first embedder of the study that runs here, one thread at a time."""
    own = (recipe for recipe in study.embedders.values() if recipe.api is None)
    recipe = next(own, None) or EmbedderRecipe(model=DEFAULT_EMBEDDER)
    embedder = work.resource(RunResources).embedder(recipe.model_copy(update={"overflow": "average"}))
    lock = threading.Lock()

    def embed(texts: Sequence[str]) -> Matrix:
        with lock:
            return embedder.passages(texts).vectors

    return embed


def review_of(outcomes: Sequence[TaskOutcome], documents: Sequence[Document], name: str) -> ReviewFile:
    """Return what a person is given to review: what is kept first, then what was dropped and why."""
    repeated = urls_that_repeat(documents)
    language = _language(outcomes)
    questions: list[ReviewedQuestion] = []
    without: list[NoQuestion] = []
    taken: set[str] = set()
    for one in sorted(outcomes, key=lambda one: one.dropped is not None):
        question = _question(one, _id(one, taken), language, repeated)
        if question is not None:
            questions.append(question)
        elif one.dropped is not None:
            url = one.task.pieces[0].document.url
            why = one.dropped
            without.append(NoQuestion(made_as=one.task.kind, fault=why.reason, reason=why.detail, url=url))
    return ReviewFile(
        question_set=name,
        language=language,
        study="",
        faults=reasons_of(outcomes),
        questions=tuple(questions),
        without_question=tuple(without),
    )


def _language(outcomes: Sequence[TaskOutcome]) -> str:
    """Return the language of most of the questions."""
    codes = Counter(_code(one.task.pieces[0]) for one in outcomes)
    return min(codes, key=lambda code: (-codes[code], code), default=None) or "en"


def _code(piece: DocumentPiece) -> str | None:
    code = (piece.document.language or "")[:2].casefold()
    return code if len(code) == 2 and code.isascii() and code.isalpha() else None


def _id(one: TaskOutcome, taken: set[str]) -> str:
    """Return an id that hangs on type and words alone, and a number where two questions have the same."""
    draft = one.draft
    words = [draft.question, *draft.conversation] if draft else [one.task.number]
    plain = f"{one.task.kind}-{digest([one.task.kind, words])[:8]}"
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name


def _question(one: TaskOutcome, name: str, language: str, repeated: set[str]) -> ReviewedQuestion | None:
    """Return a question as it is reviewed; None where the model gave none that a file could hold."""
    draft, task = one.draft, one.task
    if draft is None:
        return None
    code = _code(task.pieces[0])
    fields: Mapping[str, Any] = {
        "id": name,
        "review": "drop" if one.dropped else "open",
        "reason": one.dropped.detail if one.dropped else None,
        "fault": one.dropped.reason.value if one.dropped else None,
        "made_as": task.kind if task.kind in {"unanswerable", "follow_up"} else None,
        "type": "normal" if task.kind in {"unanswerable", "follow_up"} else task.kind,
        "language": code if code != language else None,
        "question": draft.question,
        "ground_truth": draft.answer,
        "answerable": draft.answer is not None,
        "conversation": draft.conversation,
        "evidence": [
            _evidence(piece, quote, repeated) for piece, quote in zip(task.pieces, draft.quotes, strict=False)
        ],
        "passages": [ReviewPassage(url=one.document.url, text=_line(one.text)) for one in task.pieces],
    }
    try:
        return ReviewedQuestion.model_validate(fields)
    except ValidationError:
        return None


def _evidence(piece: DocumentPiece, quote: str, repeated: set[str]) -> dict[str, str]:
    document = piece.document
    found = {"url": document.url, "quote": quote}
    return found | {"source": document.source} if document.url in repeated else found


def _line(text: str) -> str:
    return " ".join(text.split())
