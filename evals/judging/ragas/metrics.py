"""The metrics of RAGAS: what each looks at and asks, where its prompts are. Nothing of ragas is imported."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple, get_args

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
    """folder: of its prompts in `ragas.metrics.collections`; None: ours

    asks: name of the calls, which metrics may share
    lists: texts that are taken apart into statements, in order
    """

    judged: JudgedMetric
    folder: str | None
    asks: dict[str, Asks]
    lists: tuple[str, ...] = ()
    embeds: bool = False


_LIST = Asks(LIST_TOKENS)
_VERDICTS = Asks(reply_tokens(BATCH), 1, MOST_BATCHES)
_EACH = _VERDICTS._replace(of_each_passage=True)
_USEFUL = Asks(REASON_TOKENS, of_each_passage=True)
_RATED = Asks(RATING_TOKENS)
_ANSWER, _TRUTH = "answer", "ground truth"
_NOISE = {
    "noise: statements of the ground truth": _LIST,
    "noise: statements of the answer": _LIST,
    "noise: the truth by each passage": _EACH,
    "noise: the answer by each passage": _EACH,
    "noise: the answer by the truth": _VERDICTS,
}
_ALL_NEEDS: frozenset[Need] = frozenset({"answer", "passages", "ground_truth"})

METRICS: dict[str, RagasMetric] = {
    one.judged.name: one
    for one in (
        RagasMetric(
            JudgedMetric(
                "faithfulness",
                frozenset({"answer", "passages"}),
                about="Share of the statements of the answer that the passages support",
            ),
            "faithfulness",
            {"statements of the answer": _LIST, "faithfulness": _VERDICTS},
            (_ANSWER,),
        ),
        RagasMetric(
            JudgedMetric(
                "answer_relevancy",
                bounds=(-1.0, 1.0),
                about="Mean cosine of the question and those that the answer would answer; 0 if evasive",
            ),
            "answer_relevancy",
            {"questions of the answer": Asks(REASON_TOKENS, of_each_question=True)},
            embeds=True,
        ),
        RagasMetric(
            JudgedMetric(
                "answer_correctness",
                frozenset({"answer", "ground_truth"}),
                bounds=(-0.25, 1.0),
                about="0.75 F1 of the statements of the answer + 0.25 cosine of answer and ground truth",
            ),
            "answer_correctness",
            {
                "statements of the answer": _LIST,
                "statements of the truth": _LIST,
                "correctness": Asks(MOST_TOKENS),
            },
            (_ANSWER, _TRUTH),
            embeds=True,
        ),
        RagasMetric(
            JudgedMetric(
                "factual_correctness",
                frozenset({"answer", "ground_truth"}),
                about="F1 of the claims of answer and ground truth, each held against the other",
            ),
            "factual_correctness",
            {
                "claims of the answer": _LIST,
                "claims of the truth": _LIST,
                "claims of the answer by the truth": _VERDICTS,
                "claims of the truth by the answer": _VERDICTS,
            },
            (_ANSWER, _TRUTH),
        ),
        RagasMetric(
            JudgedMetric(
                "noise_sensitivity",
                _ALL_NEEDS,
                higher_is_better=False,
                about="Share of the statements of the answer that are wrong and from a relevant passage",
            ),
            "noise_sensitivity",
            _NOISE,
            (_TRUTH, _ANSWER),
        ),
        RagasMetric(
            JudgedMetric(
                "noise_sensitivity_irrelevant",
                _ALL_NEEDS,
                higher_is_better=False,
                about="Share of the statements of the answer that are wrong and from irrelevant passages",
            ),
            "noise_sensitivity",
            _NOISE,
            (_TRUTH, _ANSWER),
        ),
        RagasMetric(
            JudgedMetric(
                "context_precision",
                frozenset({"passages", "ground_truth"}),
                about="Average precision of the passages that are useful for the ground truth",
            ),
            "context_precision",
            {"usefulness to the truth": _USEFUL},
        ),
        RagasMetric(
            JudgedMetric(
                "context_utilization",
                frozenset({"answer", "passages"}),
                about="Average precision of the passages that are useful for the answer",
            ),
            "context_precision",
            {"usefulness to the answer": _USEFUL},
        ),
        RagasMetric(
            JudgedMetric(
                "context_recall",
                frozenset({"passages", "ground_truth"}),
                about="Share of the statements of the ground truth that are in the passages",
            ),
            "context_recall",
            {"recall": Asks(reply_tokens(BATCH))},
            (_TRUTH,),
        ),
        RagasMetric(
            JudgedMetric(
                "context_relevance",
                frozenset({"passages"}),
                about="Mean of two ratings of how far the passages hold what the question needs",
            ),
            "context_relevance",
            {"first rating": _RATED, "second rating": _RATED},
        ),
        RagasMetric(
            JudgedMetric(
                "relevant_sentence_ratio",
                frozenset({"passages"}),
                about="Share of the sentences of the passages that can help to answer the question",
            ),
            None,
            {"relevant sentences": Asks(REASON_TOKENS + 6 * SENTENCES, 1, MOST_SENTENCE_CALLS)},
        ),
    )
}


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
    folders = sorted({METRICS[name].folder or "" for name in names} - {""})
    files = [
        f"metrics/collections/{folder}/{file}" for folder in folders for file in ("util.py", "metric.py")
    ]
    theirs = [(root / file).read_text("utf-8") for file in (*files, *_SHARED)] if files else []
    ours = ["asking"] if files else []
    ours += ["relevant_sentences"] if "relevant_sentence_ratio" in names else []
    ragas = version("ragas") if files else ""
    return digest([_VERSION, ragas, theirs, [prompt(name).identity() for name in ours]])
