"""The metrics of RAGAS: what each looks at and asks, its prompts, and the calls of a case; without ragas."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.generation.templates import Template
from rag_assay.evals.judging.contract import JudgeCase, JudgeContext, JudgedMetric, Judgement, Need, Statement
from rag_assay.evals.judging.prompt_files import quote_for_judge
from rag_assay.evals.judging.structured_calls import ReplyForm, ask_in_room, make_judgement
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.quoting import quote_line
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import Structured
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.gateway import Messages

_VERSION = "2"  # of how replies are read
MOST_STATEMENTS = 60  # that one text may be taken apart into
BATCH = 20  # statements in one prompt: the verdicts of more are cut by many servers
MOST_BATCHES = -(-MOST_STATEMENTS // BATCH)
SENTENCES = 50  # of passages in one prompt …
MOST_SENTENCE_CALLS = 10  # … or more, so that no case takes more calls than that
LIST_TOKENS, REASON_TOKENS, RATING_TOKENS = 2_000, 300, 60  # of a reply with statements, a reason, a number
MOST_TOKENS = 8_000  # of any reply
_SHARED = ("prompt/metrics/base_prompt.py", "prompt/metrics/common.py")


def reply_tokens(verdicts: int) -> int:
    return min(MOST_TOKENS, 200 + 200 * verdicts)


class Asks(NamedTuple):
    """Least and most calls of a case, or for each passage or question."""

    tokens: int
    least: int = 1
    most: int = 1
    of_each_passage: bool = False
    of_each_question: bool = False


class RagasMetric(NamedTuple):
    """A metric as `metrics.toml` describes it."""

    judged: JudgedMetric
    folder: str
    asks: dict[str, Asks]
    lists: tuple[str, ...] = ()
    embeds: bool = False


_VERDICTS = Asks(reply_tokens(BATCH), 1, MOST_BATCHES)
_ASKS = {
    "list": Asks(LIST_TOKENS),
    "verdicts": _VERDICTS,
    "verdicts of each passage": _VERDICTS._replace(of_each_passage=True),
    "question": Asks(REASON_TOKENS, of_each_question=True),
    "longest": Asks(MOST_TOKENS),
    "usefulness": Asks(REASON_TOKENS, of_each_passage=True),
    "recall": Asks(reply_tokens(BATCH)),
    "rating": Asks(RATING_TOKENS),
    "sentences": Asks(REASON_TOKENS + 6 * SENTENCES, 1, MOST_SENTENCE_CALLS),
}


def _metric(name: str, one: Mapping[str, Any]) -> RagasMetric:
    low, high = one.get("bounds", (0.0, 1.0))
    needs, is_higher = frozenset(one["needs"]), one.get("higher_is_better", True)
    judged = JudgedMetric(name, needs, (low, high), is_higher, one["about"])
    calls = {what: _ASKS[kind] for what, kind in one["asks"].items()}
    lists, embeds = tuple(one.get("lists", ())), one.get("embeds", False)
    return RagasMetric(judged, one.get("folder", name), calls, lists, embeds)


_WRITTEN = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text("utf-8"))
METRICS: dict[str, RagasMetric] = {name: _metric(name, one) for name, one in _WRITTEN.items()}


class Times(NamedTuple):
    """What decides how often something is asked."""

    passages: int
    questions: int

    def most(self, asks: Asks) -> int:
        each_passage = self.passages if asks.of_each_passage else 1
        return asks.most * each_passage * (self.questions if asks.of_each_question else 1)

    def least(self, asks: Asks) -> int:
        return asks.least * (self.questions if asks.of_each_question else 1)


def calls_of(names: Collection[str], times: Times, most_asked: int) -> CallsEach:
    """Return (least, most) calls of a case, as metrics may lack an answer, passages or a ground truth."""
    groups = set()
    for lacking in chain.from_iterable(combinations(get_args(Need), n) for n in range(4)):
        usable = [METRICS[name] for name in names if not METRICS[name].judged.needs & {*lacking}]
        groups.add(sum(map(times.least, _asked(usable).values())))
    every = _asked([METRICS[name] for name in names])
    return CallsEach(min(groups - {0}), sum(map(times.most, every.values())) * most_asked)


def reply_of(names: Collection[str], times: Times) -> int:
    every = _asked([METRICS[name] for name in names]).values()
    return -(-sum(times.most(one) * one.tokens for one in every) // sum(map(times.most, every)))


def _asked(metrics: Iterable[RagasMetric]) -> dict[str, Asks]:
    return {what: asks for metric in metrics for what, asks in metric.asks.items()}


@cache
def prompt(name: str) -> Template:
    return Template.read(Path(__file__).parent / "prompts" / f"{name}.j2")


@cache
def prompts_digest(names: tuple[str, ...]) -> str:
    found = find_spec("ragas")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("ragas is not installed: pip install -e .")
    root = Path(found.submodule_search_locations[0])
    folders = sorted({METRICS[name].folder for name in names} - {""})
    files = [
        f"metrics/collections/{folder}/{file}" for folder in folders for file in ("util.py", "metric.py")
    ]
    theirs = [(root / file).read_text("utf-8") for file in (*files, *_SHARED)] if files else []
    ours = ["asking"] if files else []
    ours += ["relevant_sentences"] if "relevant_sentence_ratio" in names else []
    ragas = version("ragas") if files else ""
    return digest([_VERSION, ragas, theirs, [prompt(name).identity() for name in ours]])


Shape = TypeVar("Shape", bound=BaseModel)
LEAST_ROOM = 40  # tokens: no reply that is asked for is shorter


class StoppedError(Exception):
    """A metric has no value: a call failed or gave nothing to count."""

    def __init__(self, status: Status, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass
class CaseCalls:
    """The calls of one case; window: tokens that the model reads, as the recipe says."""

    chat: ChatModel
    context: JudgeContext
    question_id: str | None
    window: int | None = None
    _known: dict[tuple[str, str, int], Structured[BaseModel]] = field(default_factory=dict)

    def ask(
        self, messages: Messages, shape: type[Shape], form: ReplyForm, turn: tuple[int, int]
    ) -> tuple[Structured[Shape], tuple[Reply, ...]]:
        key = messages[-1]["content"], shape.__name__, turn[0]
        known = self._known.get(key)
        if known is not None:
            return known, ()  # type: ignore[return-value] # the same prompt and class name have the same shape
        found = ask_in_room(
            self.chat,
            self.context,
            messages,
            shape,
            form,
            name=shape.__name__,
            least=LEAST_ROOM,
            window=self.window,
            question_id=self.question_id,
            replicate=self.context.replicate * turn[1] + turn[0],
        )
        self._known[key] = found  # type: ignore[assignment] # read by its own class only
        return found, found.replies


@dataclass
class MetricCalls:
    """The calls of one metric for one case; stopped: why there will be no value."""

    case: CaseCalls
    replies: list[Reply] = field(default_factory=list)
    values: list[BaseModel] = field(default_factory=list)
    stopped: StoppedError | None = None

    def ask(
        self, messages: Messages, shape: type[Shape], form: ReplyForm, turn: tuple[int, int] = (0, 1)
    ) -> Shape:
        if self.stopped is not None:
            raise self.stopped
        found, new = self.case.ask(messages, shape, form, turn)
        self.replies += new
        if found.value is None:
            raise self.stop(found.status, found.reason or f"the call ended as {found.status}")
        self.values.append(found.value)
        return found.value

    def stop(self, status: Status, reason: str) -> StoppedError:
        self.stopped = StoppedError(status, reason)
        return self.stopped

    def judgement(
        self, value: float | None, reason: str | None, statements: tuple[Statement, ...] = ()
    ) -> Judgement:
        if self.stopped is not None:
            status, value, reason = self.stopped.status, None, self.stopped.reason
        else:
            status = Status.OK if value is not None else Status.PARSE_FAILED
        found = make_judgement(self.replies, value=value, status=status, reason=reason, statements=statements)
        raws = [reply.raw for reply in self.replies if reply.raw is not None]
        return replace(found, raw="\n\n".join(raws) if raws else None)


@dataclass(frozen=True)
class Texts:
    """What the metrics of one case read."""

    question: str
    answer: str
    truth: str
    passages: tuple[str, ...]
    first: int

    def inputs(self, names: Collection[str], *, each_passage: bool) -> dict[str, object]:
        """Return the texts by ragas' names; of passages that are judged one by one, the first ones."""
        passages = self.passages[: self.first] if each_passage else self.passages
        found: dict[str, object] = {"user_input": self.question, "response": self.answer}
        found |= {"reference": self.truth, "retrieved_contexts": list(passages)}
        return {name: text for name, text in found.items() if name in names}

    def missing(self, needs: Collection[Need]) -> Judgement | None:
        if not self.question or ("answer" in needs and not self.answer):
            what = "answer" if self.question else "question"
            return Judgement(Status.PARSE_FAILED, reason=f"the {what} has no text that can be seen")
        if "passages" in needs and not self.passages:
            return Judgement(Status.NO_CONTEXT, reason="the passages have no text that can be seen")
        if "ground_truth" in needs and not self.truth:
            return Judgement(Status.NO_CONTEXT, reason="the ground truth has no text that can be seen")
        return None


def texts_of(case: JudgeCase, first: int) -> Texts:
    passages = tuple(_passage(one) for one in case.passages if quote_for_judge(one.text))
    question, answer, truth = map(
        quote_for_judge, (case.question, case.answer or "", case.ground_truth or "")
    )
    return Texts(question, answer, truth, passages, first)


def _passage(passage: Passage) -> str:
    facts = [*filter(None, (passage.title, " › ".join(passage.section), (passage.date or "")[:10]))]
    line = quote_for_judge(quote_line(" · ".join(facts)))
    return f"{line}\n{quote_for_judge(passage.text)}" if line else quote_for_judge(passage.text)
