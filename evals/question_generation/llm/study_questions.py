"""Makes questions about the documents of a study, and the review file that a person reads them in."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from rag_assay.assets.embedding.embedder import EmbedderRecipe, Matrix
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.question_generation.llm.candidates import (
    Document,
    DocumentPiece,
    GenerationTask,
    Kind,
    QuestionDraft,
    Reason,
    RejectedQuestion,
    TaskOutcome,
    framed,
)
from rag_assay.evals.question_generation.llm.nearest_pieces import (
    Nearness,
    corpus_frame,
    documents_of,
    pieces_of,
    urls_that_repeat,
)
from rag_assay.evals.question_generation.llm.prompts import SHAPES, language_name, prompt, prompts_identity
from rag_assay.evals.question_generation.llm.verdicts import (
    QuestionGenerationContext,
    Verifier,
    failure_of,
    fault_of_words,
    quoted_words,
)
from rag_assay.evals.question_generation.near_duplicates import NearDuplicates, chance_cosine
from rag_assay.evals.question_generation.review import NoQuestion, ReviewedQuestion, ReviewFile, ReviewPassage
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.redaction import without_key

Item = TypeVar("Item")
_SAMPLE = 64  # passages by which it is known how near unrelated texts lie
_TOKENS = 700  # of a question with its answer and quotes, as JSON
_TOKENS_OF_CONVERSATION = 1_200


def make_questions(tasks: Sequence[GenerationTask], context: QuestionGenerationContext) -> list[TaskOutcome]:
    """Make the questions of a plan; return what came of each task, in their order.

    Every call is in the cache once it has ended: a run that was killed goes on where it was. Calls that cost
    are made last: what breaks a rule, or repeats another question, is not verified.
    """
    written = _in_turn("writing questions", lambda task: _written(task, context), tasks, context)
    distinct = _without_duplicates(written, tasks, context.embed)
    verifier = Verifier(context)
    left = [one for one in distinct if one.dropped is None]
    verified = iter(_in_turn("verifying questions", lambda one: _verified(one, verifier), left, context))
    return [one if one.dropped else next(verified) for one in distinct]


def _in_turn(
    label: str, ask: Callable[[Item], TaskOutcome], items: Sequence[Item], context: QuestionGenerationContext
) -> list[TaskOutcome]:
    found = []
    for number, one in enumerate(context.gateway.map(ask, items, context.chat), 1):
        found.append(one)
        context.progress(f"{label} by {context.chat.model}", number, len(items))
    return found


def _written(task: GenerationTask, context: QuestionGenerationContext) -> TaskOutcome:
    """Ask the model for a question; return it as it stands, with the first rule that it breaks."""
    if task.kind == "multi_hop" and len(task.pieces) < 2:
        return TaskOutcome(
            task, dropped=RejectedQuestion(Reason.NO_PARTNER, "no other document is near its passage")
        )
    shape = SHAPES[task.kind]
    language = language_name(task.pieces[0].document.language)
    parts = []
    for number, piece in enumerate(task.pieces, 1):
        if piece.document.title:
            parts.append(framed(piece.document.title[:200], "title", number=number))
        parts.append(framed(piece.text, "passage", number=number))
    values = {"material": ("\n".join(parts)), "language": language, "wanted": task.wanted}
    found = context.gateway.structured(
        context.chat,
        prompt(task.kind).messages(values),
        shape,
        name=shape.__name__,
        max_tokens=_TOKENS_OF_CONVERSATION if task.kind == "follow_up" else _TOKENS,
        seed=context.seed,
        purpose=context.purpose,
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


def _without_duplicates(
    outcomes: Sequence[TaskOutcome], tasks: Sequence[GenerationTask], embed: Callable[[Sequence[str]], Matrix]
) -> list[TaskOutcome]:
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


LEAST_WORDS = 25  # of a piece: a shorter one is a heading or a caption, and tells too little


def stratify_pieces(pieces: Iterable[DocumentPiece], seed: int) -> list[DocumentPiece]:
    """Return pieces in the order in which questions are made from them: one of each document, then a second.

    Documents and the pieces of each come in the order of seeded digests, so that the first n are a sample and
    a document more in the corpus moves few of them. Pieces of few words, or of few letters, are left out.
    """
    by_document: dict[str, list[tuple[str, DocumentPiece]]] = {}
    for piece in pieces:
        if _tells_something(piece.text):
            drawn = digest([seed, piece.document.doc_id, piece.start])
            by_document.setdefault(piece.document.doc_id, []).append((drawn, piece))
    rounds = [
        (turn, digest([seed, doc_id]), piece)
        for doc_id, own in by_document.items()
        for turn, (_, piece) in enumerate(sorted(own, key=lambda one: one[0]))
    ]
    return [piece for _, _, piece in sorted(rounds, key=lambda one: one[:2])]


def _tells_something(text: str) -> bool:
    letters = sum(sign.isalpha() or sign.isspace() for sign in text)
    return len(text.split()) >= LEAST_WORDS and letters >= 0.7 * len(text)


def plan(
    pieces: Sequence[DocumentPiece],
    kinds: Sequence[Kind],
    n: int,
    partner: Callable[[DocumentPiece], DocumentPiece | None],
) -> list[GenerationTask]:
    """Return the tasks of n questions, the types in turn; those of a smaller n are its beginning.

    Args:
        pieces: as `stratify_pieces` orders them.
        kinds: each once; there are fewer tasks than n where each piece has been used for each of them.
        partner: a piece of another document that goes with one, for `multi_hop`.
    """
    found: list[GenerationTask] = []
    n_yes_no = count()
    for number in range(min(n, len(pieces) * len(kinds))):
        turn, place = divmod(number, len(pieces))
        piece, kind = pieces[place], kinds[(place + turn) % len(kinds)]
        wanted: Literal["yes", "no"] | None = None
        if kind == "yes_no":
            wanted = "no" if next(n_yes_no) % 2 else "yes"
        beside = partner(piece) if kind == "multi_hop" else None
        found.append(GenerationTask(number, kind, (piece, beside) if beside else (piece,), wanted))
    return found


CODE_VERSION = "1"
DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Order:
    """What is wanted.

    chat: the model, how it is asked, and what it may cost
    n: how many questions the model is to write; some are dropped
    """

    chat: ChatModel
    n: int
    kinds: tuple[Kind, ...]
    seed: int


@dataclass(frozen=True)
class GenerationSummary:
    """What came of an order.

    kept: type -> questions that are left
    faults: reason -> questions that it has dropped
    unfinished: those that a failed call has dropped; the same order goes on with them
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
        work: of the run; its gateway keeps every call.
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
    context = QuestionGenerationContext(
        order.chat, gateway, nearness, embed, order.seed, purpose, work.progress
    )
    tasks = plan(drawn, order.kinds, order.n, nearness.partner)
    outcomes = make_questions(tasks, context)
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
    codes = Counter(_code(one.task.pieces[0]) for one in outcomes)
    return min(codes, key=lambda code: (-codes[code], code), default=None) or "en"


def _code(piece: DocumentPiece) -> str | None:
    code = (piece.document.language or "")[:2].casefold()
    return code if len(code) == 2 and code.isascii() and code.isalpha() else None


def _id(one: TaskOutcome, taken: set[str]) -> str:
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
        "passages": [
            ReviewPassage(url=one.document.url, text=" ".join(one.text.split())) for one in task.pieces
        ],
    }
    try:
        return ReviewedQuestion.model_validate(fields)
    except ValidationError:
        return None


def _evidence(piece: DocumentPiece, quote: str, repeated: set[str]) -> dict[str, str]:
    document = piece.document
    found = {"url": document.url, "quote": quote}
    return found | {"source": document.source} if document.url in repeated else found
