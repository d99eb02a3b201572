"""A judge that calls a language model: which facts of one text follow from another, and what refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from rag_assay.assets.chunking.sentence_splitter import sentence_places
from rag_assay.evals.judging.contract import (
    JudgeCase,
    JudgeContext,
    JudgedMetric,
    Judgement,
    Judgements,
)
from rag_assay.evals.judging.entailment.hypotheses import Splitting
from rag_assay.evals.judging.entailment.pairs import (
    PAIRS,
    WORDS,
    EntailmentModel,
    PairName,
    PreparedCase,
    Side,
    Tag,
    judge_pairs,
    prepare,
    prompts_identity,
    split,
    text_of,
)
from rag_assay.evals.judging.prompt_files import frame_text
from rag_assay.evals.judging.structured_calls import ModelJudge, ReplyForm, make_judgement
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.structured import MOST_ASKED, Structured
from rag_assay.warehouse.recipe import Strict
from rag_assay.warehouse.schemas import RETRYABLE

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
    found = asking.each(lambda one: _asked(one, asking), batches, label)
    alone = [
        one
        for batch, reply in zip(batches, found, strict=True)
        if len(batch) > 1 and _is_unusable(reply)
        for one in batch
    ]
    again = iter(asking.each(lambda one: _asked([one], asking), alone, label))
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


def _asked(batch: Sequence[Opening], asking: EntailmentModel) -> Structured[Verdicts]:
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

    metrics: Annotated[tuple[Name, ...], Field(min_length=1)] = NAMES
    pronouns: bool = True
    pronoun_batch: Annotated[int, Field(ge=1, le=64)] = 16
    most_sentences: Annotated[int, Field(ge=1, le=1_000)] = 100
    tags: TagValues = TagValues()
    refusal_sentences: Annotated[int, Field(ge=1, le=20)] = 2
    refusal_batch: Annotated[int, Field(ge=1, le=MOST_TEXTS)] = 1

    @field_validator("metrics")
    @classmethod
    def _names_each_once(cls, metrics: tuple[Name, ...]) -> tuple[Name, ...]:
        if len(set(metrics)) < len(metrics):
            raise ValueError("each metric is named once")
        return tuple(name for name in NAMES if name in metrics)

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
