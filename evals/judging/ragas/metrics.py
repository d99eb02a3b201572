"""The metrics of RAGAS: what each looks at and asks, where its prompts are. Nothing of ragas is imported."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple, get_args

from rag_assay.evals.generation.templates import Template
from rag_assay.evals.judging.contract import JudgedMetric, Need
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_part import CallsEach

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
