"""Judges entailment by a classifier on this machine: a cross-encoder with three labels, and no prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from rag_assay.assets.chunking.sentence_splitter import sentences
from rag_assay.evals.judging import contract
from rag_assay.evals.judging.entailment.hypotheses import Splitting, windows
from rag_assay.evals.judging.entailment.judge import (
    PAIRS,
    WORDS,
    EntailmentPair,
    PairName,
    once_each,
    split,
    text_of,
)
from rag_assay.warehouse.encodable import all_encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference.cross_encoders import PairModel, load_pair_model
from rag_assay.warehouse.schemas import Status

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder as Model

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = ("entailment", "neutral", "contradiction")
DECIMALS = 4  # of a probability that are kept: below them, it depends on what else is in the batch
LEAST_ROOM = 16  # tokens of a premise, beside a hypothesis
Floats: TypeAlias = "npt.NDArray[np.float64]"


class _Task(NamedTuple):
    of: str
    text: str
    windows: tuple[str, ...]


class _Read(NamedTuple):
    """The probabilities, by LABELS, in the window that entails a task best."""

    probabilities: tuple[float, ...]
    window: int
    seconds: float


Ready = tuple[_Task, ...] | contract.Judgement
"""The sentences of a pair of one case; or why it cannot be judged."""


class EntailmentClassifier(PairModel, Splitting, contract.Judge):
    """Entailment by a cross-encoder of three labels, sentence by sentence, in both directions.

    The three metrics are those of `entailment`: `faithfulness`, `precision`, `recall`. The value is the mean
    over the sentences of the probability of entailment, which is the highest of all windows of the premise
    (SummaC, Laban and others, TACL 2022, arXiv:2111.09525). Pronouns stay, facts are not split.

    metrics: default: all
    labels: meaning of the model's outputs, in their order; default: from its config.json
    batch_size: pairs of premise and hypothesis in one batch; changes no value
    max_length: tokens of both, at most the model's limit; a longer premise is read in windows of whole
        sentences, each of which begins with the last one of the previous window
    most_sentences: a text with more is not judged (`truncated`)
    """

    kind: ClassVar[str] = "entailment_classifier"
    varies: ClassVar[bool] = False

    metrics: Annotated[tuple[PairName, ...], Field(min_length=1), once_each(PAIRS)] = tuple(PAIRS)
    labels: tuple[Label, Label, Label] | None = None
    batch_size: Annotated[int, Field(ge=1, le=1_024)] = 32
    max_length: Annotated[int, Field(ge=64, le=32_768)] = 512
    most_sentences: Annotated[int, Field(ge=1, le=1_000)] = 100

    @model_validator(mode="after")
    def _has_three_labels(self) -> Self:
        if self.labels is not None and set(self.labels) != set(LABELS):
            raise ValueError(f"`labels` names each of {', '.join(LABELS)} once")
        names = None if self.labels else _names_in(self.folder)
        if names is not None:
            try:
                labels_in(names, self.model)
            except InputError as error:
                raise ValueError(str(error)) from error
        return self

    @property
    def judged_metrics(self) -> tuple[contract.JudgedMetric, ...]:
        return tuple(PAIRS[name].metric for name in self.metrics)

    def verdicts(
        self, cases: Sequence[contract.JudgeCase], context: contract.JudgeContext
    ) -> list[dict[str, contract.Judgement]]:
        wanted = [
            {name: pair for name in self.metrics if (pair := PAIRS[name]).metric.can_judge(case)}
            for case in cases
        ]
        try:
            model = _loaded(self.model, self.revision, self.max_length, self.weights())
            labels = self._labels(model)
        except (InputError, OSError) as error:
            failed = contract.Judgement(Status.ERROR, reason=str(error))
            return [dict.fromkeys(pairs, failed) for pairs in wanted]
        ready = [
            {name: self._ready(case, pair, model) for name, pair in pairs.items()}
            for case, pairs in zip(cases, wanted, strict=True)
        ]
        tasks = [task for pairs in ready for one in pairs.values() for task in _tasks(one)]
        found = iter(self._read(tasks, model, labels, context))
        return [
            {name: self._judgement(one, [next(found) for _ in _tasks(one)]) for name, one in pairs.items()}
            for pairs in ready
        ]

    def _labels(self, model: Model) -> tuple[Label, ...]:
        if model.config.num_labels != len(LABELS):
            n = model.config.num_labels
            raise InputError(
                f"{self.model} gives {n} scores for a pair; a classifier of entailment gives three"
            )
        return self.labels or labels_in(model.config.id2label, self.model)

    def _ready(self, case: contract.JudgeCase, pair: EntailmentPair, model: Model) -> Ready:
        texts = {side: split(text_of(case, side), side, self, self.most_sentences) for side in pair.sides}
        obstacle = next((one.obstacle for one in texts.values() if one.obstacle), None)
        if obstacle:
            return obstacle
        hypotheses = all_encodable(texts[pair.hypothesis].sentences)
        counts = _counts(model, hypotheses)
        places = model.max_seq_length - model.tokenizer.num_special_tokens_to_add(pair=True)
        room = places - max(counts)
        if room < LEAST_ROOM:
            of = f"sentence {counts.index(max(counts)) + 1} of the {WORDS[pair.hypothesis]}"
            reason = f"{of} has {max(counts)} of the {places} tokens that the model reads; lower `longest`"
            return contract.Judgement(Status.TRUNCATED, reason=reason)
        asked = "" if pair.premise is None else (sentences(case.question) or [case.question])[-1]
        [lead, *read] = all_encodable(
            [asked, *(texts[pair.premise].sentences if pair.premise else _read_of(case))]
        )
        cut = tuple(windows(lead, read, room, lambda some: _counts(model, some)))
        return tuple(
            _Task(f"{WORDS[pair.hypothesis]}, sentence {number}", text, cut)
            for number, text in enumerate(hypotheses, 1)
        )

    def _read(
        self, tasks: Sequence[_Task], model: Model, labels: Sequence[Label], context: contract.JudgeContext
    ) -> list[_Read]:
        import torch
        from scipy.special import softmax

        pairs = sorted({(window, task.text) for task in tasks for window in task.windows})
        step = 64 * self.batch_size
        known: dict[tuple[str, str], Floats] = {}
        begin = perf_counter()
        for at in range(0, len(pairs), step):
            some = pairs[at : at + step]
            scores = model.predict(
                some, batch_size=self.batch_size, show_progress_bar=False, activation_fn=torch.nn.Identity()
            )
            order = [labels.index(label) for label in LABELS]
            known |= zip(
                some,
                np.round(softmax(np.asarray(scores, np.float64), axis=1)[:, order], DECIMALS),
                strict=True,
            )
            context.progress(f"judging entailment by {self.model}", len(known), len(pairs))
        each = (perf_counter() - begin) / max(1, len(pairs))
        found = []
        for task in tasks:
            rows = [known[window, task.text] for window in task.windows]
            best = int(np.argmax([row[0] for row in rows]))
            found.append(_Read(tuple(map(float, rows[best])), best + 1, each * len(rows)))
        return found

    def _judgement(self, ready: Ready, found: Sequence[_Read]) -> contract.Judgement:
        if isinstance(ready, contract.Judgement):
            return ready
        values = [one.probabilities[0] for one in found]
        judged = contract.Judgement(
            Status.OK,
            sum(values) / len(values),
            f"{sum(_label(one) == LABELS[0] for one in found)} of {len(found)} sentences are entailed",
            seconds=sum(one.seconds for one in found),
            usd=0.0,
            cached=False,
            model=self.model,
        )
        return replace(judged, statements=tuple(map(_statement, ready, found)))

    def dependencies(self, seed: int) -> list[str | int]:
        return [self.weights()]


def labels_in(names: Mapping[int, str], model: str) -> tuple[Label, ...]:
    """Return what a model's outputs mean by its config.json; raise InputError for labels that are not ours.

    >>> labels_in({0: "CONTRADICTION", 1: "entailment", 2: "Neutral"}, "any")
    ('contradiction', 'entailment', 'neutral')
    """
    found: list[Label] = []
    for number in sorted(names):
        found += [label for label in LABELS if names[number].lower() == label]
    if sorted(found) != sorted(LABELS) or len(names) != len(LABELS):
        said = ", ".join(names[number] for number in sorted(names))
        raise InputError(
            f"the outputs of {model} are {said} by its config.json (id2label), not {', '.join(LABELS)}; "
            "of a classifier of entailment say what they mean, in their order: `labels: [contradiction, …]`"
        )
    return tuple(found)


def _names_in(folder: Path) -> dict[int, str] | None:
    try:
        written = json.loads((folder / "config.json").read_bytes())["id2label"]
        return {int(number): str(name) for number, name in written.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # who loads it says why


def _tasks(ready: Ready) -> tuple[_Task, ...]:
    return () if isinstance(ready, contract.Judgement) else ready


def _read_of(case: contract.JudgeCase) -> list[str]:
    texts = [one.text for one in case.passages if one.text.strip()]
    return [sentence for text in texts for sentence in sentences(text) or [text]]


def _label(read: _Read) -> Label:
    return LABELS[int(np.argmax(read.probabilities))]


def _statement(task: _Task, read: _Read) -> contract.Statement:
    shares = ", ".join(f"{label} {p:.2f}" for label, p in zip(LABELS, read.probabilities, strict=True))
    window = f", in window {read.window} of {len(task.windows)}" if len(task.windows) > 1 else ""
    return contract.Statement(task.of, task.text, _label(read), read.probabilities[0], shares + window)


def _counts(model: Model, texts: Sequence[str]) -> list[int]:
    found = model.tokenizer(list(texts), add_special_tokens=False, truncation=False, verbose=False)
    return [len(tokens) for tokens in found["input_ids"]]


@lru_cache(maxsize=1)
def _loaded(model: str, revision: str | None, max_length: int, weights: str) -> Model:
    return load_pair_model(model, revision, max_length)
