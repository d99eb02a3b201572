"""Which facts of one text follow from another, by a language model, pair by pair; and which texts refuse."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, Field

from rag_assay.assets.chunking.sentence_splitter import sentence_places, sentences
from rag_assay.evals.generation.templates import Template
from rag_assay.evals.judging.contract import (
    JudgeCase,
    JudgeContext,
    JudgedMetric,
    Judgement,
    Judgements,
    Need,
    Statement,
)
from rag_assay.evals.judging.entailment.hypotheses import Splitting
from rag_assay.evals.judging.prompt_files import frame_passages, frame_text
from rag_assay.evals.judging.structured_calls import ModelJudge, ReplyForm, ask_in_room, make_judgement
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.replies import Reply, together
from rag_assay.warehouse.inference.structured import MOST_ASKED, Shape, Structured, schema_only
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import RETRYABLE, Status

Stage = Literal["pronouns", "facts", "refusals"]
STAGES: tuple[Stage, ...] = ("pronouns", "facts", "refusals")
LEAST_REPLY = 200  # tokens of a reply; with less room nothing is sent
_VERSION = "2"  # of how values are made of a case
Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _prompt(stage: Stage) -> Template:
    return Template.read(Path(__file__).parent / "prompts" / f"{stage}.j2")


def prompts_identity() -> str:
    return digest([_VERSION, [_prompt(stage).identity() for stage in STAGES]])


@dataclass(frozen=True)
class EntailmentModel:
    """A model in the context of a judge; window: tokens that it reads, as the recipe says."""

    chat: ChatModel
    context: JudgeContext
    window: int | None = None

    def ask(
        self,
        stage: Stage,
        values: dict[str, object],
        shape: type[Shape],
        form: ReplyForm,
        question_id: str | None,
    ) -> Structured[Shape]:
        return ask_in_room(
            self.chat,
            self.context,
            _prompt(stage).messages(values),
            shape,
            form,
            name=stage,
            least=LEAST_REPLY,
            window=self.window,
            question_id=question_id,
        )

    def each(self, ask: Callable[[Item], Result], items: Sequence[Item], label: str) -> list[Result]:
        return list(self.context.each(ask, items, self.chat, label))


SPENT = r"^(\d+) calls?, ([\d.]+) s(?:, (\d+) \+ (\d+) tokens)?"
"""Reads what `spent` writes: calls, seconds, tokens read and written; no match where there was no call."""


def spent(replies: Sequence[Reply]) -> str:
    if not replies:
        return "no call"
    whole = together(tuple(replies))
    words = [f"{len(replies)} {'call' if len(replies) == 1 else 'calls'}", f"{whole.seconds:.2f} s"]
    if whole.prompt_tokens is not None and whole.completion_tokens is not None:
        words.append(f"{whole.prompt_tokens} + {whole.completion_tokens} tokens")
    return ", ".join(words)


BEFORE = 2  # sentences that a prompt shows of those before its own
_GROWTH, _MORE = 3, 200  # a sentence grows by a factor, and characters, at most


class SentencesReply(Strict):
    """The model's reply: the sentences that it was shown, in their order."""

    sentences: Annotated[tuple[Annotated[str, schema_only(maxLength=1_500)], ...], Field(max_length=200)]


Text = tuple[JudgeCase, tuple[str, ...]]
"""A case, and the sentences of one of its texts."""


@dataclass(frozen=True)
class Resolved:
    """A text whose pronouns were replaced, or not (reason); failed: a call that may succeed later."""

    sentences: tuple[str, ...]
    replies: tuple[Reply, ...] = ()
    kept: int = 0
    reason: str | None = None
    failed: Status | None = None


class _Batch(NamedTuple):
    text: int
    first: int
    sentences: tuple[str, ...]


def resolve_pronouns(texts: Sequence[Text], asking: EntailmentModel, size: int) -> list[Resolved]:
    """Replace pronouns, all prompts concurrently; of an unusable reply the sentences stay as they are."""
    batches = [
        _Batch(number, first, sentences[first : first + size])
        for number, (_, sentences) in enumerate(texts)
        for first in range(0, len(sentences), size)
    ]
    replies = asking.each(lambda one: _asked(one, texts[one.text], asking), batches, "replacing pronouns")
    found: list[list[tuple[_Batch, Structured[SentencesReply]]]] = [[] for _ in texts]
    for batch, reply in zip(batches, replies, strict=True):
        found[batch.text].append((batch, reply))
    return [_put_together(one) for one in found]


def _asked(batch: _Batch, text: Text, asking: EntailmentModel) -> Structured[SentencesReply]:
    count, (case, written) = len(batch.sentences), text
    before = written[max(0, batch.first - BEFORE) : batch.first]
    sentences = (frame_text(one, "sentence", number=number) for number, one in enumerate(batch.sentences, 1))
    return asking.ask(
        "pronouns",
        {
            "question": frame_text(case.question, "question"),
            "before": frame_text("\n".join(before), "before") if before else "",
            "sentences": "\n".join(sentences),
            "count": count,
        },
        SentencesReply,
        ReplyForm(
            {"SentencesReply.sentences": {"minItems": count, "maxItems": count}},
            200 + sum(map(len, batch.sentences)),
            lambda reply: _check(reply, batch.sentences),
        ),
        case.question_id,
    )


def _check(reply: SentencesReply, written: Sequence[str]) -> None:
    if len(reply.sentences) != len(written):
        raise ValueError(f"it has {len(reply.sentences)} sentences in place of {len(written)}")
    for number, (new, old) in enumerate(zip(reply.sentences, written, strict=True), 1):
        if not new.strip():
            raise ValueError(f"sentence {number} is empty")
        if len(new) > _GROWTH * len(old) + _MORE:
            raise ValueError(f"sentence {number} has {len(new)} characters in place of {len(old)}")


def _put_together(parts: Sequence[tuple[_Batch, Structured[SentencesReply]]]) -> Resolved:
    sentences: list[str] = []
    replies: list[Reply] = []
    reason, failed, kept = None, None, 0
    for batch, found in parts:
        replies += found.replies
        if found.value is not None:
            sentences += [one.strip() for one in found.value.sentences]
            continue
        sentences += batch.sentences
        kept += len(batch.sentences)
        if failed is None:
            reason = f"{found.status}: {found.reason}"
            failed = found.status if found.status in RETRYABLE else None
    return Resolved(tuple(sentences), tuple(replies), kept, reason, failed)


Tag = Literal["entailed", "neutral", "contradicted"]
MOST_FACTS = 20
FACT_TOKENS = 2_000  # of a reply


class Fact(Strict):
    """One thing that a hypothesis claims; it is explained first, so that the tag follows."""

    fact: Annotated[str, Field(min_length=1), schema_only(maxLength=400)]
    explanation: Annotated[str, schema_only(maxLength=300)]
    tag: Tag


class FactsReply(Strict):
    """The model's reply."""

    facts: Annotated[tuple[Fact, ...], Field(min_length=1, max_length=MOST_FACTS)]


class Hypothesis(NamedTuple):
    """What is to follow, and from what."""

    of: str
    text: str
    premise: str
    asked: bool
    question_id: str | None


Found = Structured[FactsReply]


def tag_facts(hypotheses: Sequence[Hypothesis], asking: EntailmentModel) -> list[Found]:
    def ask(one: Hypothesis) -> Found:
        return asking.ask(
            "facts",
            {"premise": one.premise, "hypothesis": frame_text(one.text, "hypothesis"), "asked": one.asked},
            FactsReply,
            ReplyForm({}, FACT_TOKENS),
            one.question_id,
        )

    return asking.each(ask, hypotheses, "judging entailment")


def score(of_hypotheses: Sequence[FactsReply], values: Mapping[Tag, float]) -> float:
    means = [sum(values[one.tag] for one in of.facts) / len(of.facts) for of in of_hypotheses]
    return sum(means) / len(means)


Side = Literal["answer", "ground_truth"]
PairName = Literal["faithfulness", "precision", "recall"]
WORDS: Mapping[Side, str] = {"answer": "answer", "ground_truth": "ground truth"}


class EntailmentPair(NamedTuple):
    """What is to follow, and from what."""

    metric: JudgedMetric
    hypothesis: Side
    premise: Side | None

    @property
    def sides(self) -> tuple[Side, ...]:
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


def once_each(known: Iterable[str]) -> AfterValidator:
    def ordered(names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("each metric is named once")
        return tuple(name for name in known if name in names)

    return AfterValidator(ordered)


def text_of(case: JudgeCase, side: Side) -> str:
    return (case.answer if side == "answer" else case.ground_truth) or ""


class SplitText(NamedTuple):
    """A text as hypotheses, or why it is none that can be judged."""

    sentences: tuple[str, ...]
    obstacle: Judgement | None = None


def split(text: str, side: Side, splitting: Splitting, most: int) -> SplitText:
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
    """One case with its texts split and, once that is done, their pronouns replaced."""

    case: JudgeCase
    texts: dict[Side, SplitText]
    resolved: dict[Side, Resolved] = field(default_factory=dict)
    unpaid: dict[Side, tuple[Reply, ...]] = field(default_factory=dict)

    def obstacle(self, pair: EntailmentPair) -> Judgement | None:
        return next((found for side in pair.sides if (found := self.texts[side].obstacle)), None)

    def failed(self, pair: EntailmentPair) -> Resolved | None:
        return next((self.resolved[side] for side in pair.sides if self.resolved[side].failed), None)

    def hypotheses(self, pair: EntailmentPair) -> list[Hypothesis]:
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
    tasks = [
        (one, side, one.texts[side].sentences)
        for one, pairs in cases
        for side in dict.fromkeys(side for pair in pairs if not one.obstacle(pair) for side in pair.sides)
    ]
    if size is None:
        for one, side, written in tasks:
            one.resolved[side] = Resolved(written)
        return
    found = resolve_pronouns([(one.case, written) for one, _, written in tasks], asking, size)
    for (one, side, _), whole in zip(tasks, found, strict=True):
        one.resolved[side] = whole
        one.unpaid[side] = whole.replies


def judge_pairs(
    tasks: Sequence[tuple[PreparedCase, EntailmentPair]], asking: EntailmentModel, values: Mapping[Tag, float]
) -> list[Judgement]:
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
            said += [
                Statement(hypothesis.of, fact.fact, fact.tag, values[fact.tag], fact.explanation)
                for fact in one.value.facts
            ]
    failures = sorted(
        (one for one in found if one.value is None), key=lambda one: one.status not in RETRYABLE
    )
    every = (*stages, *said)
    if failures:
        broken = failures[0]
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


MOST_TEXTS = 32  # of a prompt
_LONGEST = 2_000  # characters that are read of the first sentences


class RefusalVerdict(Strict):
    """Of one text, by its number."""

    number: int
    refusal: bool


class Verdicts(Strict):
    """The model's reply."""

    verdicts: Annotated[tuple[RefusalVerdict, ...], Field(max_length=MOST_TEXTS)]


Opening = tuple[str, str | None]
"""The first sentences of an answer or ground truth, and the id of the question."""


def opening(text: str, sentences: int) -> str:
    places = sentence_places(text[: 4 * _LONGEST])[:sentences]
    return text[: places[-1][1]][:_LONGEST] if places else text[:_LONGEST]


def refusals(openings: Sequence[Opening], asking: EntailmentModel, size: int) -> list[Judgement]:
    """Ask whether texts refuse, ``size`` a prompt, concurrently; unusable replies are asked again singly."""
    batches = [openings[at : at + size] for at in range(0, len(openings), size)]
    label = "looking for refusals"
    found = asking.each(lambda one: _refusals_in(one, asking), batches, label)
    alone = [
        one
        for batch, reply in zip(batches, found, strict=True)
        if len(batch) > 1 and _is_unusable(reply)
        for one in batch
    ]
    again = iter(asking.each(lambda one: _refusals_in([one], asking), alone, label))
    results: list[Judgement] = []
    for batch, reply in zip(batches, found, strict=True):
        if len(batch) > 1 and _is_unusable(reply):
            held = reply.replies
            for _ in batch:
                results += _read(next(again), 1, held)
                held = ()
        else:
            results += _read(reply, len(batch), ())
    return results


def _is_unusable(reply: Structured[Verdicts]) -> bool:
    return reply.value is None and reply.status not in RETRYABLE


def _refusals_in(batch: Sequence[Opening], asking: EntailmentModel) -> Structured[Verdicts]:
    count = len(batch)

    def check(reply: Verdicts) -> None:
        numbers = sorted(one.number for one in reply.verdicts)
        if numbers != list(range(1, count + 1)):
            raise ValueError(f"it has verdicts on the texts {numbers} in place of 1 to {count}, each once")

    texts = (frame_text(text, "text", number=number) for number, (text, _) in enumerate(batch, 1))
    return asking.ask(
        "refusals",
        {"texts": "\n".join(texts), "count": count},
        Verdicts,
        ReplyForm({"Verdicts.verdicts": {"minItems": count, "maxItems": count}}, 40 + 40 * count, check),
        batch[0][1] if count == 1 else None,
    )


def _read(reply: Structured[Verdicts], count: int, before: tuple[Reply, ...]) -> Iterator[Judgement]:
    said = {one.number: one.refusal for one in reply.value.verdicts} if reply.value else {}
    paid = before + reply.replies
    for number in range(1, count + 1):
        refused = said.get(number)
        if refused is None:
            yield make_judgement(paid, status=reply.status, reason=reply.reason)
        else:
            reason = "it refuses to answer" if refused else "it answers"
            yield make_judgement(paid, value=float(refused), reason=reason)
        paid = ()  # what a prompt costs counts once


RefusalName = Literal["answer_refusal", "truth_refusal"]
Name = PairName | RefusalName
NAMES: tuple[Name, ...] = ("faithfulness", "precision", "recall", "answer_refusal", "truth_refusal")
_SENTENCES = 6  # of a text, for the plan of a run


REFUSED: Mapping[RefusalName, Side] = {"answer_refusal": "answer", "truth_refusal": "ground_truth"}
METRICS: dict[Name, JudgedMetric] = {name: pair.metric for name, pair in PAIRS.items()}
for _name, _side in REFUSED.items():
    _about = f"1 where the {WORDS[_side]} refuses to answer, else 0."
    METRICS[_name] = JudgedMetric(_name, frozenset({_side}), higher_is_better=False, about=_about)


class TagValues(Strict):
    """What a fact counts by its tag.

    entailed: the premise proves it
    neutral: the premise neither proves it nor says otherwise
    contradicted: the premise says otherwise
    """

    entailed: Annotated[float, Field(ge=0, le=1)] = 1.0
    neutral: Annotated[float, Field(ge=0, le=1)] = 0.0
    contradicted: Annotated[float, Field(ge=0, le=1)] = 0.0

    def by_tag(self) -> dict[Tag, float]:
        return {"entailed": self.entailed, "neutral": self.neutral, "contradicted": self.contradicted}


class Entailment(ModelJudge, Splitting):
    """Entailment by a language model, fact by fact, in both directions, and refusals.

    `faithfulness` says how much of the answer follows from the passages, `precision` how much of it follows
    from the ground truth, `recall` how much of the ground truth follows from the answer. Each text is split
    into sentences and their pronouns are replaced; each sentence is split into facts, each of them tagged;
    the value is the mean over the sentences of the mean over the facts of each. A premise that is no passage
    begins with the last sentence of the question. `answer_refusal` and `truth_refusal` are 1 where the first
    sentences of the text refuse to answer. A sentence that cannot be judged leaves its pair without a value.

    metrics: default: all
    pronouns: whether pronouns are replaced; a sentence whose reply is unusable stays as it is
    pronoun_batch: sentences in one prompt that replaces pronouns
    most_sentences: a text with more is not judged (`truncated`)
    tags: value of a fact by its tag; default: entailed 1, neutral and contradicted 0
    refusal_sentences: first sentences of a text that are searched for a refusal
    refusal_batch: texts in one prompt that looks for refusals. With more than one, a verdict may depend on
        the other texts, and another run may differ
    window: tokens that the model reads, prompt and reply together; default: the model's, if known. A
        sentence whose premise does not fit is not judged (`truncated`)
    """

    kind: ClassVar[str] = "entailment"

    metrics: Annotated[tuple[Name, ...], Field(min_length=1), once_each(NAMES)] = NAMES
    pronouns: bool = True
    pronoun_batch: Annotated[int, Field(ge=1, le=64)] = 16
    most_sentences: Annotated[int, Field(ge=1, le=1_000)] = 100
    tags: TagValues = TagValues()
    refusal_sentences: Annotated[int, Field(ge=1, le=20)] = 2
    refusal_batch: Annotated[int, Field(ge=1, le=MOST_TEXTS)] = 1

    @property
    def judged_metrics(self) -> tuple[JudgedMetric, ...]:
        return tuple(METRICS[name] for name in self.metrics)

    def verdicts(self, cases: Sequence[JudgeCase], context: JudgeContext) -> list[Judgements]:
        asking = EntailmentModel(self, context, self.window)
        pairs = self._pairs(cases, asking)
        refused = self._refusals(cases, asking)
        return [{**one, **other} for one, other in zip(pairs, refused, strict=True)]

    def _pairs(self, cases: Sequence[JudgeCase], asking: EntailmentModel) -> list[dict[str, Judgement]]:
        wanted = [{name: pair for name, pair in PAIRS.items() if self._judges(name, case)} for case in cases]
        ready = [
            PreparedCase(
                case,
                {
                    side: split(text_of(case, side), side, self, self.most_sentences)
                    for pair in pairs.values()
                    for side in pair.sides
                },
            )
            for case, pairs in zip(cases, wanted, strict=True)
        ]
        both = [(one, pairs.values()) for one, pairs in zip(ready, wanted, strict=True)]
        prepare(both, asking, self.pronoun_batch if self.pronouns else None)
        tasks = [(one, pair) for one, pairs in both for pair in pairs]
        found = iter(judge_pairs(tasks, asking, self.tags.by_tag()))
        return [{name: next(found) for name in pairs} for pairs in wanted]

    def _refusals(self, cases: Sequence[JudgeCase], asking: EntailmentModel) -> list[dict[str, Judgement]]:
        tasks = [
            (number, name, (opening(text_of(case, side), self.refusal_sentences), case.question_id))
            for name, side in REFUSED.items()
            for number, case in enumerate(cases)
            if self._judges(name, case)
        ]
        found = refusals([one for _, _, one in tasks], asking, self.refusal_batch)
        judgements: list[dict[str, Judgement]] = [{} for _ in cases]
        for (number, name, _), one in zip(tasks, found, strict=True):
            judgements[number][name] = one
        return judgements

    def _judges(self, name: Name, case: JudgeCase) -> bool:
        return name in self.metrics and METRICS[name].can_judge(case)

    def dependencies(self, seed: int) -> list[str | int]:
        return [prompts_identity(), seed, *self.served()]

    def calls_per_case(self) -> CallsEach:
        pairs = [pair for name, pair in PAIRS.items() if name in self.metrics]
        refused = sum(name in self.metrics for name in REFUSED)
        sides = len({side for pair in pairs for side in pair.sides}) if self.pronouns else 0
        alone = "faithfulness" in self.metrics
        least = (1 + self.pronouns if alone else 0) + ("answer_refusal" in self.metrics)
        most = MOST_ASKED * (sides + _SENTENCES * len(pairs) + refused)
        return CallsEach(least or sides + len(pairs) + refused, most)
