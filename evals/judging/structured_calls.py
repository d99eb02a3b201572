"""Judges that are language models: fits a case into the window, calls the model, and reads its reply."""

from __future__ import annotations

import json
import math
import re
import threading
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

from pydantic import BaseModel, Field

from rag_assay.evals.generation.contract import Request
from rag_assay.evals.generation.prompt_fitting import ContextWindow, fit_prompt
from rag_assay.evals.judging.contract import Judge, JudgeCase, JudgeContext, Judgement, Need, Statement
from rag_assay.evals.judging.prompt_files import JudgePrompt, Language, wordings_identity
from rag_assay.evals.word_lists import alternation, entries
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference import structured
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.replies import FirstTokens, Reply, together
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Gateway, Messages

DECLINED = "the model declines to judge"
LOOK = 300  # characters in which a model that declines says so
_DECLINES = rf"(?i)\b(?:{alternation('judging', 'declining')})"


def declines(text: str) -> bool:
    """
    >>> declines("I'm sorry, but I can't judge this."), declines('{"reason": "I cannot tell", "verdict": 0}')
    (True, False)
    """
    beginning = " ".join(text.lstrip().strip("`\"'*_ ")[:LOOK].split())
    return not beginning.startswith(("{", "[", "json")) and re.search(_DECLINES, beginning) is not None


def refusal_apart(found: structured.Structured[structured.Shape]) -> structured.Structured[structured.Shape]:
    if found.status is not Status.PARSE_FAILED or not declines(found.reply.text):
        return found
    return replace(found, status=Status.REFUSED, reason=f"{DECLINED}: {found.reply.text}")


_SPENT = ("raw", "seconds", "prompt_tokens", "completion_tokens", "usd", "cached", "model")


def make_judgement(
    replies: Sequence[Reply],
    *,
    value: float | None = None,
    status: Status | None = None,
    reason: str | None = None,
    statements: tuple[Statement, ...] = (),
) -> Judgement:
    if not replies:
        return Judgement(status or Status.OK, value, reason, statements=statements)
    whole = together(tuple(replies))
    failed = next((one for one in reversed(replies) if one.status is not Status.OK), None)
    ended = status or (Status.OK if value is not None else failed.status if failed else Status.PARSE_FAILED)
    reason = reason or (failed.reason if failed and ended is not Status.OK else None)
    value = value if ended is Status.OK else None
    spent: dict[str, Any] = {name: getattr(whole, name) for name in _SPENT}
    return Judgement(ended, value, reason, calls=len(replies), statements=statements, **spent)


class FittedCase(NamedTuple):
    """A prompt that fits, and what it does not show."""

    messages: Messages
    note: str = ""


_SPACES = str.maketrans("ĠĊ▁", "   ")  # as vocabularies write them
_EDGES = r"^[\W\d_]+|[\W\d_]+$"
_WORD = r"[^\W\d_]+"


class Chances(NamedTuple):
    """Probabilities that an answer begins with yes, and with no."""

    yes: float
    no: float

    @property
    def share(self) -> float:
        return self.yes + self.no

    @property
    def value(self) -> float:
        """P(yes) / (P(yes) + P(no))."""
        return self.yes / self.share


def chances(tokens: FirstTokens) -> Chances:
    """Add up the probabilities of all tokens that begin a yes or a no (English or German); unlisted: 0.

    >>> found = chances(((" Yes", math.log(0.5)), ("No", math.log(0.2)), ("yes", math.log(0.1)), ("A", -2.0)))
    >>> round(found.yes, 9), round(found.no, 9), round(found.value, 9)
    (0.6, 0.2, 0.75)
    """
    read = [(_side(token), math.exp(chance)) for token, chance in tokens]
    yes, no = (sum((chance for side, chance in read if side is wanted), 0.0) for wanted in (True, False))
    return Chances(yes, no)


def word_of(text: str) -> bool | None:
    """
    >>> word_of("**Yes**, they do."), word_of("nein"), word_of("Yes and no."), word_of("I would say yes.")
    (True, False, None, None)
    """
    words = [word.casefold() for word in re.findall(_WORD, unicodedata.normalize("NFKC", text))]
    sides = {side for side in (True, False) if not _words(is_yes=side).isdisjoint(words)}
    if len(sides) != 1 or words[0] not in _words(is_yes=True) | _words(is_yes=False):
        return None
    return sides.pop()


def _side(token: str) -> bool | None:
    plain = re.sub(_EDGES, "", unicodedata.normalize("NFKC", token).translate(_SPACES)).casefold()
    for is_yes in (True, False):
        if plain in _beginnings(is_yes=is_yes):
            return is_yes
    return None


@cache
def _words(*, is_yes: bool) -> frozenset[str]:
    return frozenset(entries("judging", "yes" if is_yes else "no"))


@cache
def _beginnings(*, is_yes: bool) -> frozenset[str]:
    return frozenset(word[: end + 1] for word in _words(is_yes=is_yes) for end in range(len(word)))


Mend = Callable[[str], str | None]
"""What a model said -> the JSON that it means; None where that is not sure, or it holds JSON already."""

LONGEST = 20_000  # characters of a reply that is looked through
KEPT = 400  # characters of a reply that stand for its reason
# A sentence or a line begins.
_BEGIN = (
    r"(?:^|[\n.;:!?{,(])[\s\"'*_#>-]{0,8}(?:(?:and|or|und|oder|the|my|final|overall|die|meine)\s{1,3}){0,4}"
)
_BETWEEN = r"[\s\"'*_:=([{`#]{0,8}(?:is|of|ist|lautet)?[\s\"'*_:=([{`]{0,8}"
_OF = r"(?:\s{0,3}(?:/|out of|of|von)\s{0,3}(?P<of>\d{1,3}))?"
_GRADE = (
    rf"(?i){_BEGIN}(?:score|grade|rating|bewertung|punktzahl|wertung)\b{_BETWEEN}"
    rf"(?P<n>\d{{1,3}}(?:[.,]\d+)?){_OF}(?=[^\S\n]{{0,8}}(?P<next>\S?))"
)
_ALONE = rf"[\s\"'*_`]{{0,8}}(?P<n>\d{{1,3}}){_OF}[\s\"'*_`.]{{0,8}}"
_ENDS = frozenset(".;,!?)*_`\"'}]")  # what may follow a grade that is one
_MET = (
    rf"(?i){_BEGIN}(?:met|verdict|erfüllt|urteil)\b{_BETWEEN}"
    r"(?P<word>true|false|yes|no|ja|nein|wahr|falsch)\b"
)
_CHOICE = (
    rf"(?i){_BEGIN}(?:better|winner|verdict|besser|urteil)\b{_BETWEEN}(?:answer|antwort)?\s{{0,3}}(?P<n>[12]|tie)"
    r"(?=[^\S\n]{0,8}(?P<next>\S?))"
)
_TRUE = {"true", "yes", "ja", "wahr"}


def _plain(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text)
    return plain if len(plain) <= LONGEST else ""


def grade_within(text: str, scale: int) -> int | None:
    """Return the one grade, of a scale from 1, that a text names: called a grade, alone, or a fraction of it.

    >>> [grade_within(text, 5) for text in ("Short. **Score:** 4/5", "Score: 8/10", "Score: 4 or 5", "3")]
    [4, None, None, 3]
    """
    text = _plain(text)
    alone = re.fullmatch(_ALONE, text)
    named = [match.groupdict() for match in ([alone] if alone else re.finditer(_GRADE, text))]
    grades = {_grade(one, scale) for one in named}
    return grades.pop() if len(grades) == 1 else None


def met_within(text: str) -> bool | None:
    """
    >>> met_within("Too long. Verdict: no"), met_within("Yes, it is."), met_within("met: true, or met: false")
    (False, True, None)
    """
    text = _plain(text)
    words = {match["word"].casefold() in _TRUE for match in re.finditer(_MET, text)}
    if words:
        return words.pop() if len(words) == 1 else None
    return word_of(text)


def choice_within(text: str) -> str | None:
    """
    >>> [choice_within(text) for text in ("Better: 2", "I like 1.", "**Winner:** tie", "1 or 2", " 1 ")]
    ['2', None, 'tie', None, '1']
    """
    text = _plain(text)
    found = {
        None if match["next"] and match["next"] not in _ENDS else match["n"].lower()
        for match in re.finditer(_CHOICE, text)
    }
    alone = text.strip(" \n\t\"'*_`.").lower()
    found |= {alone} & {"1", "2", "tie"}
    return found.pop() if len(found) == 1 else None


def mending(shape: type[BaseModel], verdict: Callable[[str], Mapping[str, Any] | None]) -> Mend:
    def mend(text: str) -> str | None:
        try:
            structured.read_json(text, shape)
        except ValueError:
            said = verdict(text)
            return None if said is None else json.dumps({"reason": text[:KEPT], **said})
        return None

    return mend


def _grade(named: Mapping[str, str | None], scale: int) -> int | None:
    number = float((named["n"] or "").replace(",", "."))
    of = named.get("of")
    after = named.get("next")
    if (after and after not in _ENDS) or not number.is_integer() or not 1 <= number <= scale:
        return None
    return int(number) if of is None or int(of) == scale else None


class ModelJudge(ChatModel, Judge):
    """A judge that is a language model.

    window: tokens that the model reads, prompt and reply together; default: the model's, if known
    """

    unless_said: ClassVar[frozenset[str]] = frozenset({"window"})

    window: Annotated[int, Field(ge=64, le=100_000_000)] | None = None

    @property
    def chat(self) -> ChatModel:
        return self

    def served(self) -> list[str]:
        found = self.served_by()
        return [found] if found else []


class PromptedJudge(ModelJudge):
    """A judge that asks in one prompt of its kind, `prompts/KIND.LANGUAGE.j2`, which holds the passages.

    language: language of the prompt, en | de; default: the question's, or English
    window: tokens that the model reads; default: the model's, if known. Passages are cut to fit
    """

    unless_said: ClassVar[frozenset[str]] = frozenset({"language", "window"})

    language: Language | None = None

    @property
    def prompt(self) -> JudgePrompt:
        return JudgePrompt(self.kind, self.language)

    @property
    @abstractmethod
    def worded(self) -> tuple[str, ...] | None:
        """Names in the table of its kind in the word lists `judging`."""

    def dependencies(self, seed: int) -> list[str | int]:
        asked = [] if self.worded is None else [wordings_identity(self.kind, self.worded)]
        return [self.prompt.identity(), *asked, seed, *self.served()]

    def fit(
        self,
        case: JudgeCase,
        write: Callable[[JudgeCase], Messages],
        gateway: Gateway,
        longest: int,
        shown: Collection[Need],
    ) -> FittedCase | Judgement:
        needs_passages = "passages" in shown
        case = case if needs_passages else replace(case, passages=())
        window = ContextWindow(self, gateway, self.max_tokens or longest, self.window)
        request = Request(case.question, case.language, passages=case.passages)
        try:
            found = fit_prompt(request, lambda one: write(replace(case, passages=one.passages)), window.fits)
        except AssayError:  # weights that are not there fail the call itself
            return FittedCase(write(case))
        if found is None:
            return Judgement(Status.TRUNCATED, reason=f"the case does not fit into {window.words}")
        left_out, total = len(found.left_out), len(case.passages)
        if needs_passages and left_out == total:
            return Judgement(Status.NO_CONTEXT, reason=f"no passage fits into {window.words}")
        note = f"{len(found.cuts)} of {total} passages were cut or left out to fit" if found.cuts else ""
        return FittedCase(found.messages, note)


@dataclass(frozen=True)
class ReplySchema:
    """The JSON schema of a verdict."""

    shape: type[BaseModel]
    name: str
    bounds: structured.Bounds
    check: Callable[[BaseModel], None]
    mend: Mend
    max_tokens: int


@dataclass(frozen=True)
class VerdictAsker:
    """Asks for verdicts; what is unreadable is parsed from its words, else asked again."""

    chat: ChatModel
    context: JudgeContext
    _refused: threading.Event = field(default_factory=threading.Event)

    def ask(
        self, messages: Messages, wanted: ReplySchema, question_id: str | None
    ) -> structured.Structured[BaseModel]:
        schema = structured.response_format_of(wanted.shape, wanted.name, wanted.bounds)

        def send(chat: Messages, schema: dict[str, object] | None) -> Reply:
            return self.context.gateway.ask(
                self.chat,
                chat,
                max_tokens=wanted.max_tokens,
                seed=self.context.seed,
                response_format=schema,
                replicate=self.context.replicate,
                purpose=self.context.purpose.of(question_id),
            )

        def sent(chat: Messages) -> Reply:
            form = None if self._refused.is_set() else schema
            reply = send(chat, form)
            if form is not None and _refuses_schemas(reply):
                self._refused.set()
                reply = send(chat, None)
            repaired = wanted.mend(reply.text) if reply.status is Status.OK else None
            return reply if repaired is None else replace(reply, text=repaired)

        return refusal_apart(structured.ask_structured(sent, messages, wanted.shape, wanted.check))


def _refuses_schemas(reply: Reply) -> bool:
    reason = (reply.reason or "").lower()
    return reply.status is Status.ERROR and any(
        words in reason for words in ("response_format", "json_schema", "response format")
    )


@dataclass(frozen=True)
class ReplyForm:
    """How one class of replies is asked for; check raises ValueError for unusable ones."""

    bounds: structured.Bounds
    max_tokens: int
    check: Callable[[Any], None] | None = None
    size: Callable[[Any], int] | None = None


def ask_in_room(  # noqa: PLR0913 - the parameters of a request, by name
    chat: ChatModel,
    context: JudgeContext,
    messages: Messages,
    shape: type[structured.Shape],
    form: ReplyForm,
    *,
    name: str,
    least: int,
    window: int | None,
    question_id: str | None,
    replicate: int | None = None,
) -> structured.Structured[structured.Shape]:
    left, tokens = form.max_tokens, ContextWindow(chat, context.gateway, form.max_tokens, window).tokens
    if tokens is not None:
        with suppress(AssayError):  # weights that are not there fail the call itself
            left = min(left, tokens - context.gateway.count_tokens(chat, messages))
    if left < min(form.max_tokens, least):
        reason = f"the prompt leaves {max(0, left)} tokens of the model's window for its reply; not asked"
        return structured.Structured(None, Status.TRUNCATED, reason, ())
    found = context.gateway.structured(
        chat,
        messages,
        shape,
        name=name,
        max_tokens=left,
        seed=context.seed,
        replicate=context.replicate if replicate is None else replicate,
        bounds=form.bounds,
        check=form.check,
        purpose=context.purpose.of(question_id),
    )
    return refusal_apart(found)
