"""Makes questions about the documents of a study, and the review file that a person reads them in."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from rag_assay.assets.cleaning.language import detect
from rag_assay.assets.embedding.embedder import Matrix
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.generation.refusals import is_refusal
from rag_assay.evals.pipeline.run_resources import RunResources
from rag_assay.evals.query_transforms.rules.follow_up_cues import depends
from rag_assay.evals.question_generation.generator import NearDuplicates, chance_cosine
from rag_assay.evals.question_generation.llm.candidates import (
    SHAPES,
    ClosedBookReply,
    Document,
    DocumentPiece,
    GenerationTask,
    Kind,
    Nearness,
    QuestionDraft,
    Reason,
    RejectedQuestion,
    TaskOutcome,
    Verdict,
    VerdictReply,
    corpus_frame,
    documents_of,
    framed,
    language_name,
    pieces_of,
    prompt,
    prompts_identity,
    urls_that_repeat,
)
from rag_assay.evals.question_generation.question_file import local_embedder
from rag_assay.evals.question_generation.review import NoQuestion, ReviewedQuestion, ReviewFile, ReviewPassage
from rag_assay.evals.question_sets.alignment import WordedText, find_quote, most_similar
from rag_assay.evals.question_sets.question_files import is_empty
from rag_assay.evals.retrieval.question_words import content_forms
from rag_assay.evals.study.study import Study
from rag_assay.evals.word_lists import Language, alternation
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.budget import Budget
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway, Messages
from rag_assay.warehouse.inference.redaction import without_key
from rag_assay.warehouse.inference.structured import Shape
from rag_assay.warehouse.schemas import RETRYABLE, Status

SHORTEST_QUOTE = 12  # characters: a shorter one stands anywhere
TITLE_LETTERS = 12  # a shorter title is a subject, which a question may name
TITLE_SHARE, TITLE_WORDS = 0.8, 3
TELLING = 25  # characters from which on the language of a text can be told
_MARKS = "?？؟;\u037e"  # the last two end questions in Greek
_YES = "yes ja oui sí si sì sim tak ano igen da kyllä joo ναι áno jah jā taip"
_NO = "no nein non não nie ne nee nem nu ei nej όχι nē nei"
YES, NO = frozenset(_YES.split()), frozenset(_NO.split())
_WORD = re.compile(r"\w+")


def quoted_words(draft: QuestionDraft, task: GenerationTask) -> tuple[str, ...] | RejectedQuestion:
    found = []
    for piece, quote in zip(task.pieces, draft.quotes, strict=True):
        text = piece.document.text
        span = find_quote(text, quote) or _most_similar(piece, quote)
        if span is None:
            return RejectedQuestion(
                Reason.QUOTE_NOT_FOUND, f"{piece.document.url} does not hold {quote!r:.200}"
            )
        if span[1] - span[0] < SHORTEST_QUOTE:
            return RejectedQuestion(Reason.QUOTE_TOO_SHORT, f"{quote!r} proves nothing")
        found.append(text[span[0] : span[1]])
    return tuple(found)


def _most_similar(piece: DocumentPiece, quote: str) -> tuple[int, int] | None:
    place = most_similar(WordedText(piece.text), quote)
    return (piece.start + place.start, piece.start + place.end) if place else None


def fault_of_words(draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
    documents = [piece.document for piece in task.pieces]
    rules: list[Callable[[], RejectedQuestion | None]] = [
        lambda: _form(draft),
        lambda: _pointing(draft),
        lambda: _title(draft, documents),
        lambda: _language_fault(draft, documents[0].language),
        lambda: _type(draft, task),
        lambda: _gives_answer(draft, task.kind),
    ]
    return next((fault for rule in rules if (fault := rule()) is not None), None)


def _form(draft: QuestionDraft) -> RejectedQuestion | None:
    for question in (draft.question, draft.whole):
        if is_empty(question) or question.rstrip(" \"”“»«'’)")[-1:] not in _MARKS:
            return RejectedQuestion(Reason.NO_QUESTION, f"{question!r:.200} is not a question")
    if draft.answer is not None and (is_refusal(draft.answer) or not _WORD.search(draft.answer)):
        return RejectedQuestion(Reason.NO_ANSWER, f"the answer is {draft.answer!r:.200}")
    return None


def _pointing(draft: QuestionDraft) -> RejectedQuestion | None:
    found = (_pointers().search(text) for text in (draft.question, draft.whole, *draft.conversation))
    match = next((one for one in found if one), None)
    return RejectedQuestion(Reason.NAMES_THE_PASSAGE, f"it says {match[0]!r}") if match else None


@cache
def _pointers() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{alternation('made_questions', 'pointing')})", re.IGNORECASE)


def _title(draft: QuestionDraft, documents: Sequence[Document]) -> RejectedQuestion | None:
    asked = [_plain(text) for text in (draft.question, draft.whole, *draft.conversation[::2])]
    for document in documents:
        title = _plain(document.title or "")
        words = content_forms(document.title or "")
        for text in asked:
            held = {word for word in words if re.search(rf"\b{re.escape(word)}\b", text)}
            most = len(words) >= TITLE_WORDS and len(held) >= TITLE_SHARE * len(words)
            if most or (len(title) >= TITLE_LETTERS and f" {title} " in f" {text} "):
                return RejectedQuestion(Reason.LEAKS_TITLE, f"it says the title {document.title!r:.200}")
    return None


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _language_fault(draft: QuestionDraft, wanted: str | None) -> RejectedQuestion | None:
    if wanted is None:
        return None
    for text in (draft.question, draft.answer or "", draft.standalone or "", *draft.conversation):
        found = detect(text) if len(text) >= TELLING else None
        if found not in (None, wanted[:2]):
            return RejectedQuestion(
                Reason.WRONG_LANGUAGE, f"{text!r:.200} is in {found}, and not in {wanted}"
            )
    return None


def verdict_of(answer: str, *, alone: bool = True) -> str | None:
    """
    >>> verdict_of("Nein, erst ab neun."), verdict_of("Yes."), verdict_of("No one is."), verdict_of("Noon.")
    ('no', 'yes', None, None)
    >>> verdict_of("Yes it is", alone=False)
    'yes'
    """
    plain = answer.strip().casefold()
    first = _WORD.match(plain)
    if first is None or first[0] not in YES | NO:
        return None
    if alone and _WORD.match(plain[first.end() :].lstrip()):
        return None
    return "yes" if first[0] in YES else "no"


def _type(draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
    verdict = verdict_of(draft.answer or "", alone=task.kind != "yes_no")
    if task.kind == "yes_no":
        if verdict is None or _opens_with_question_word(draft.question, language_of(task)):
            said = f"{draft.question!r:.150} is answered by {draft.answer!r:.150}"
            return RejectedQuestion(Reason.WRONG_TYPE, f"it is not a question of yes or no: {said}")
    elif task.kind == "normal" and verdict is not None:
        return RejectedQuestion(Reason.WRONG_TYPE, f"it is answered by yes or no: {draft.answer!r:.150}")
    elif task.kind == "hypothetical" and language_of(task) and not _opens_case(draft.question):
        return RejectedQuestion(Reason.WRONG_TYPE, f"it opens no case: {draft.question!r:.200}")
    return None


def language_of(task: GenerationTask) -> Language | None:
    known: dict[str, Language] = {"en": "english", "de": "german"}
    return known.get((task.pieces[0].document.language or "")[:2])


def _opens_case(question: str) -> bool:
    """Return whether a question names a condition, or is asked of a case that was told before it.

    >>> _opens_case("A town builds a hall. Which standard must it meet?"), _opens_case("Which hall?")
    (True, False)
    """
    return _conditions().search(question) is not None or re.search(r"\w{2}[.!;]\s", question) is not None


@cache
def _conditions() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{alternation('made_questions', 'conditional')})\b", re.IGNORECASE)


def _opens_with_question_word(question: str, language: Language | None) -> bool:
    if language is None:
        return False
    openers = alternation("questions", "openers", language)
    return re.match(rf"\W*(?:{openers})\b", question, re.IGNORECASE) is not None


def _gives_answer(draft: QuestionDraft, kind: Kind) -> RejectedQuestion | None:
    if draft.answer is None or kind in {"yes_no", "hypothetical"} or verdict_of(draft.answer):
        return None
    said = content_forms(" ".join((draft.question, *draft.conversation[::2])))
    answer = content_forms(draft.answer)
    if answer and answer <= said:
        return RejectedQuestion(Reason.ANSWER_IN_QUESTION, f"it says its answer {draft.answer!r:.150}")
    return None


BEST = 5  # passages that an unanswerable question is held against
AGREEING = 0.5  # F1 of the content words from which on two answers say the same
SAME_MEANING = 0.85  # cosine from which on they do
NEAR_WORDS = 1 / 3  # share of its content words that the best passages hold of a question that is on topic
_VERDICT_TOKENS, _ANSWER_TOKENS = 200, 160
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def failure_of(status: Status, reason: str | None, raw: str | None) -> RejectedQuestion:
    detail = reason or f"the call ended as {status}"
    if status in RETRYABLE:
        return RejectedQuestion(Reason.CALL_FAILED, f"{status}: {detail}")
    if status is Status.TRUNCATED:
        return RejectedQuestion(Reason.TRUNCATED, detail)
    if status is Status.REFUSED:
        return RejectedQuestion(Reason.REFUSED, detail)
    return RejectedQuestion(Reason.EMPTY if not (raw or "").strip() else Reason.UNREADABLE, detail)


@dataclass(frozen=True)
class QuestionGenerationContext:
    """embed: texts -> unit vectors, shape (texts, dimensions), thread-safe"""

    chat: ChatModel
    gateway: Gateway
    nearness: Nearness
    embed: Callable[[Sequence[str]], Matrix]
    seed: int
    purpose: Purpose = Purpose("questions")
    progress: Callable[[str, int, int], None] = lambda _label, _done, _of: None

    def ask(self, messages: Messages, shape: type[Shape], max_tokens: int) -> Shape | RejectedQuestion:
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


class Verifier:
    """Asks the model about its own questions; every verdict but the right one drops a question."""

    def __init__(self, context: QuestionGenerationContext) -> None:
        self._context = context

    def fault(self, draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
        if draft.answer is None:
            return self._answered(draft)
        material = _quotes(draft.quotes) + _asked(draft)
        checks: list[Callable[[], RejectedQuestion | None]] = [
            lambda: self._judged("supported", material, "yes", Reason.NOT_SUPPORTED),
            lambda: self._known(draft, task),
        ]
        if task.kind == "multi_hop":
            checks.insert(1, lambda: self._one_suffices(draft))
        if task.kind == "follow_up":
            checks.insert(0, lambda: self._stands_alone(draft, task))
        return next((fault for check in checks if (fault := check()) is not None), None)

    def _one_suffices(self, draft: QuestionDraft) -> RejectedQuestion | None:
        for number, quote in enumerate(draft.quotes, 1):
            found = self._ask("supported", _quotes([quote]) + _asked(draft), VerdictReply, _VERDICT_TOKENS)
            if isinstance(found, RejectedQuestion):
                return _doubtful(found, Reason.ONE_DOCUMENT_SUFFICES)
            if found.verdict == "yes":
                return RejectedQuestion(Reason.ONE_DOCUMENT_SUFFICES, f"quote {number} alone: {found.reason}")
        return None

    def _known(self, draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
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
        if not said.strip() or verdict_of(made, alone=False) != verdict_of(said, alone=False):
            return False
        if not set(_NUMBER.findall(made)) <= set(_NUMBER.findall(said)):
            return False
        if shared_words(made, said) >= AGREEING:
            return True
        vectors = self._context.embed([made, said])
        return bool(np.dot(vectors[0], vectors[1]) >= SAME_MEANING)

    def _answered(self, draft: QuestionDraft) -> RejectedQuestion | None:
        best = self._context.nearness.best(draft.question, BEST)
        if _share(draft.question, best) < NEAR_WORDS:
            return RejectedQuestion(
                Reason.OFF_TOPIC, "the best passages of the corpus share hardly a word with it"
            )
        passages = "\n".join(framed(piece.text, "passage", number=n) for n, piece in enumerate(best, 1))
        asked = f"{passages}\n{framed(draft.question, 'question')}"
        return self._judged("answered", asked, "no", Reason.ANSWERED_BY_CORPUS)

    def _stands_alone(self, draft: QuestionDraft, task: GenerationTask) -> RejectedQuestion | None:
        if language_of(task) and depends(draft.question):
            return None
        conversation = "\n".join(f"- {turn}" for turn in draft.conversation)
        asked = f"{framed(conversation, 'conversation')}\n{framed(draft.question, 'question')}"
        return self._judged("depends", asked, "yes", Reason.STANDS_ALONE)

    def _judged(self, name: Verdict, material: str, wanted: str, reason: Reason) -> RejectedQuestion | None:
        found = self._ask(name, material, VerdictReply, _VERDICT_TOKENS)
        if isinstance(found, RejectedQuestion):
            return _doubtful(found, reason)
        if found.verdict == wanted:
            return None
        return RejectedQuestion(reason, f"{found.verdict}: {found.reason}")

    def _ask(
        self, name: Verdict, material: str, shape: type[Shape], max_tokens: int, **values: object
    ) -> Shape | RejectedQuestion:
        messages = prompt(name).messages({"material": material, **values})
        return self._context.ask(messages, shape, max_tokens)


def _doubtful(fault: RejectedQuestion, reason: Reason) -> RejectedQuestion:
    if fault.reason is Reason.CALL_FAILED:
        return fault
    return RejectedQuestion(reason, f"the verdict is {fault.reason}: {fault.detail}")


def _quotes(quotes: Sequence[str]) -> str:
    return "".join(framed(quote, "quote", number=number) + "\n" for number, quote in enumerate(quotes, 1))


def _asked(draft: QuestionDraft) -> str:
    return f"{framed(draft.whole, 'question')}\n{framed(draft.answer or '', 'answer')}"


def shared_words(one: str, other: str) -> float:
    left, right = content_forms(one), content_forms(other)
    shared = len(left & right)
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def _share(question: str, pieces: Sequence[DocumentPiece]) -> float:
    asked = content_forms(question)
    held: set[str] = set().union(*(content_forms(piece.text) for piece in pieces)) if pieces else set()
    return len(asked & held) / len(asked) if asked else 0.0


Item = TypeVar("Item")
_SAMPLE = 64  # passages by which it is known how near unrelated texts lie
_TOKENS = 700  # of a question with its answer and quotes, as JSON
_TOKENS_OF_CONVERSATION = 1_200


def make_questions(tasks: Sequence[GenerationTask], context: QuestionGenerationContext) -> list[TaskOutcome]:
    """Return the outcome of each task, in order; paid calls come last, for what breaks no rule."""
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
    if task.kind == "multi_hop" and len(task.pieces) < 2:
        return TaskOutcome(
            task, dropped=RejectedQuestion(Reason.NO_PARTNER, "no other document is near its passage")
        )
    language = language_name(task.pieces[0].document.language)
    parts = []
    for number, piece in enumerate(task.pieces, 1):
        if piece.document.title:
            parts.append(framed(piece.document.title[:200], "title", number=number))
        parts.append(framed(piece.text, "passage", number=number))
    values = {"material": "\n".join(parts), "language": language, "wanted": task.wanted}
    max_tokens = _TOKENS_OF_CONVERSATION if task.kind == "follow_up" else _TOKENS
    reply = context.ask(prompt(task.kind).messages(values), SHAPES[task.kind], max_tokens)
    if isinstance(reply, RejectedQuestion):
        return TaskOutcome(task, dropped=reply)
    draft = reply.draft()
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
    return [
        _compared(one, one.draft, kept, next(rows)) if one.draft and not one.dropped else one
        for one in outcomes
    ]


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
    counts = Counter(one.dropped.reason.value for one in outcomes if one.dropped)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


LEAST_WORDS = 25  # of a piece: a shorter one is a heading or a caption, and tells too little


def stratify_pieces(pieces: Iterable[DocumentPiece], seed: int) -> list[DocumentPiece]:
    """Return pieces, one of each document, then a second, by seeded digests; short ones are left out."""
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
    """Return the tasks of n questions, the types in turn; those of a smaller n are its beginning."""
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


@dataclass(frozen=True)
class Order:
    """What is wanted."""

    chat: ChatModel
    n: int
    kinds: tuple[Kind, ...]
    seed: int


@dataclass(frozen=True)
class GenerationSummary:
    """Type -> kept, reason -> dropped, and how many a failed call has dropped."""

    file: ReviewFile
    tried: int
    kept: Counter[str]
    faults: dict[str, int]
    usd: float

    @property
    def unfinished(self) -> int:
        return self.faults.get(Reason.CALL_FAILED, 0)


def make_for_study(
    study: Study, order: Order, name: str, study_is: str, work: BuildContext
) -> GenerationSummary:
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
    recipe = local_embedder(study).model_copy(update={"overflow": "average"})
    embedder = work.resource(RunResources).embedder(recipe)
    lock = threading.Lock()

    def embed(texts: Sequence[str]) -> Matrix:
        with lock:
            return embedder.passages(texts).vectors

    return embed


def review_of(outcomes: Sequence[TaskOutcome], documents: Sequence[Document], name: str) -> ReviewFile:
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
