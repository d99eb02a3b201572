"""Pairs of a premise and a text that is to follow from it, and what comes of each case by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentences
from rag_assay.evals.judging.contract import JudgeCase, JudgedMetric, Judgement, Need, Statement
from rag_assay.evals.judging.entailment.facts import (
    FactsReply,
    Found,
    Hypothesis,
    Tag,
    failure,
    score,
    statements,
    tag_facts,
)
from rag_assay.evals.judging.entailment.hypotheses import Splitting
from rag_assay.evals.judging.entailment.model_calls import EntailmentModel, spent
from rag_assay.evals.judging.entailment.pronouns import Resolved, Text, resolve_pronouns
from rag_assay.evals.judging.frames import frame_passages, frame_text
from rag_assay.evals.judging.replies import make_judgement
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.schemas import Status

Side = Literal["answer", "ground_truth"]
PairName = Literal["faithfulness", "precision", "recall"]
WORDS: Mapping[Side, str] = {"answer": "answer", "ground_truth": "ground truth"}


class EntailmentPair(NamedTuple):
    """What is to follow, and from what.

    premise: None: the passages
    """

    metric: JudgedMetric
    hypothesis: Side
    premise: Side | None

    @property
    def sides(self) -> tuple[Side, ...]:
        """The texts that are split and whose pronouns are replaced for it."""
        return (self.hypothesis,) if self.premise is None else (self.hypothesis, self.premise)


_OF_PASSAGES: frozenset[Need] = frozenset({"answer", "passages"})
_OF_BOTH: frozenset[Need] = frozenset({"answer", "ground_truth"})
PAIRS: Mapping[PairName, EntailmentPair] = {
    "faithfulness": EntailmentPair(
        JudgedMetric("faithfulness", _OF_PASSAGES, about="Share of the answer that the passages entail."),
        "answer",
        None,
    ),
    "precision": EntailmentPair(
        JudgedMetric("precision", _OF_BOTH, about="Share of the answer that the ground truth entails."),
        "answer",
        "ground_truth",
    ),
    "recall": EntailmentPair(
        JudgedMetric("recall", _OF_BOTH, about="Share of the ground truth that the answer entails."),
        "ground_truth",
        "answer",
    ),
}


def text_of(case: JudgeCase, side: Side) -> str:
    """Return one of the two texts of a case; empty where there is none."""
    return (case.answer if side == "answer" else case.ground_truth) or ""


class SplitText(NamedTuple):
    """A text as hypotheses, or why it is none that can be judged."""

    sentences: tuple[str, ...]
    obstacle: Judgement | None = None


def split(text: str, side: Side, splitting: Splitting, most: int) -> SplitText:
    """Split a text; one without a word, or with more sentences than are judged, has an obstacle."""
    too_long = f"the {WORDS[side]} has more than the {most} sentences that are judged (`most_sentences`)"
    if len(text) > 4 * most * splitting.longest:
        return SplitText((), Judgement(Status.TRUNCATED, reason=too_long))
    found = tuple(splitting.hypotheses(text))
    if not found:
        return SplitText((), Judgement(Status.PARSE_FAILED, reason=f"the {WORDS[side]} has no sentence"))
    if len(found) > most:
        return SplitText((), Judgement(Status.TRUNCATED, reason=too_long))
    return SplitText(found)


@dataclass
class PreparedCase:
    """One case with its texts split and, once that is done, their pronouns replaced.

    unpaid: replies about pronouns that no judgement has paid yet
    """

    case: JudgeCase
    texts: dict[Side, SplitText]
    resolved: dict[Side, Resolved] = field(default_factory=dict)
    unpaid: dict[Side, tuple[Reply, ...]] = field(default_factory=dict)

    def obstacle(self, pair: EntailmentPair) -> Judgement | None:
        """Return why a pair cannot be judged: a text that cannot be split."""
        return next((found for side in pair.sides if (found := self.texts[side].obstacle)), None)

    def failed(self, pair: EntailmentPair) -> Resolved | None:
        """Return a text that waits for another run; None: there is none."""
        return next((self.resolved[side] for side in pair.sides if self.resolved[side].failed), None)

    def hypotheses(self, pair: EntailmentPair) -> list[Hypothesis]:
        """Return each hypothesis of a pair with its premise."""
        return [
            Hypothesis(
                f"{WORDS[pair.hypothesis]}, sentence {number}",
                text,
                self._premise(pair.premise),
                pair.premise is not None,
                self.case.question_id,
            )
            for number, text in enumerate(self.resolved[pair.hypothesis].sentences, 1)
        ]

    def _premise(self, side: Side | None) -> str:
        if side is None:
            return frame_passages([one for one in self.case.passages if one.text.strip()], "premise")
        asked = sentences(self.case.question)[-1:] or [self.case.question]
        return frame_text("\n".join([*asked, *self.resolved[side].sentences]), "premise")

    def pay(self, pair: EntailmentPair) -> tuple[list[Reply], list[Statement]]:
        """Return the replies about pronouns that nothing has paid yet, and what became of the pronouns."""
        replies: list[Reply] = []
        found = []
        for side in pair.sides:
            text = self.resolved[side]
            paid = self.unpaid.pop(side, None)
            replies += paid or ()
            ended = f"{text.kept} of {len(text.sentences)} as written" if text.kept else "replaced"
            cost = spent(paid) if paid is not None else "paid by a metric before"
            reason = f"{cost}; {text.reason}" if text.reason else cost
            found.append(Statement("stage", f"pronouns of the {WORDS[side]}", ended, None, reason))
        return replies, found


def prepare(
    cases: Sequence[tuple[PreparedCase, Collection[EntailmentPair]]],
    asking: EntailmentModel,
    size: int | None,
) -> None:
    """Replace the pronouns of the texts of all cases that a pair needs which can be judged.

    size: sentences of one prompt at most; None: pronouns stay
    """
    tasks = [
        (one, side, Text(one.case.question, one.texts[side].sentences, one.case.question_id))
        for one, pairs in cases
        for side in dict.fromkeys(side for pair in pairs if not one.obstacle(pair) for side in pair.sides)
    ]
    if size is None:
        for one, side, text in tasks:
            one.resolved[side] = Resolved(text.sentences)
        return
    found = resolve_pronouns([text for _, _, text in tasks], asking, size)
    for (one, side, _), whole in zip(tasks, found, strict=True):
        one.resolved[side] = whole
        one.unpaid[side] = whole.replies


def judge_pairs(
    tasks: Sequence[tuple[PreparedCase, EntailmentPair]], asking: EntailmentModel, values: Mapping[Tag, float]
) -> list[Judgement]:
    """Judge pairs, the hypotheses of all of them side by side."""
    asked = [[] if one.obstacle(pair) or one.failed(pair) else one.hypotheses(pair) for one, pair in tasks]
    found = tag_facts([one for hypotheses in asked for one in hypotheses], asking)
    ends = list(accumulate(map(len, asked), initial=0))
    return [
        _judgement(one, pair, asked[place], found[ends[place] : ends[place + 1]], values)
        for place, (one, pair) in enumerate(tasks)
    ]


def _judgement(
    prepared: PreparedCase,
    pair: EntailmentPair,
    hypotheses: Sequence[Hypothesis],
    found: Sequence[Found],
    values: Mapping[Tag, float],
) -> Judgement:
    obstacle = prepared.obstacle(pair)
    if obstacle:
        return obstacle
    replies, stages = prepared.pay(pair)
    failed = prepared.failed(pair)
    if failed:
        reason = f"the pronouns could not be replaced: {failed.reason}"
        return make_judgement(replies, status=failed.failed, reason=reason, statements=tuple(stages))
    own = [reply for one in sorted(found, key=lambda one: one.value is None) for reply in one.replies]
    stages.append(Statement("stage", "entailment", None, None, spent(own)))
    facts: list[FactsReply] = []
    said: list[Statement] = []
    for hypothesis, one in zip(hypotheses, found, strict=True):
        if one.value is None:
            said.append(Statement(hypothesis.of, hypothesis.text, str(one.status), None, one.reason))
        else:
            facts.append(one.value)
            said += statements(hypothesis, one.value, values)
    broken = failure(found)
    every = (*stages, *said)
    if broken:
        n = len(found) - len(facts)
        reason = f"{n} of {len(found)} sentences could not be judged: {broken.reason}"
        return make_judgement([*replies, *own], status=broken.status, reason=reason, statements=every)
    value = score(facts, values)
    return make_judgement(
        [*replies, *own], value=value, reason=_summary(facts, prepared, pair), statements=every
    )


def _summary(facts: Sequence[FactsReply], prepared: PreparedCase, pair: EntailmentPair) -> str:
    tags = [one.tag for of in facts for one in of.facts]
    counts = ", ".join(f"{tags.count(tag)} {tag}" for tag in dict.fromkeys(tags))
    kept = [
        f"; pronouns of the {WORDS[side]} stand as written in {text.kept} sentences ({text.reason})"
        for side in pair.sides
        if (text := prepared.resolved[side]).kept
    ]
    return f"{len(tags)} facts in {len(facts)} sentences: {counts}{''.join(kept)}"
