"""Every figure of a study once more, from the stored rows, by code that shares nothing with the project's.

Read are the study's YAML, the pointers (JSON) and the artifacts' Parquet files.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.stats

Row = dict[str, Any]
Value = float | None
AXES = ("chunking", "embedder", "retriever", "generator")
SECTIONS = {
    "chunkings": "chunking",
    "embedders": "embedder",
    "retrievers": "retriever",
    "generators": "generator",
}
SURE = 0.98
LEAST = {"semantic_similarity": -1.0}  # of metrics that are not from 0 …
MOST = {"retrieval_latency": math.inf, "answer_latency": math.inf, "tokens": math.inf}  # … to 1


@dataclass
class Cell:
    """A cell: its key, the name on each axis, and question -> metric -> value (None: no value)."""

    key: str
    names: dict[str, str]
    sample: int | None
    values: dict[str, dict[str, Value]] = field(default_factory=dict)  # metric -> question -> value
    answers: dict[str, Row] = field(default_factory=dict)
    ranked: dict[str, Row] = field(default_factory=dict)
    hits: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def ranking(self) -> str:
        return self.key.rpartition(".")[0]


class Recount:
    """A study's figures.

    Args:
        root: the home folder.
        study: the study file as YAML says it.
        similarity: pairs of texts -> cosines; None leaves that metric out.
        rouge: text -> words.
    """

    def __init__(
        self,
        root: Path,
        study: Mapping[str, Any],
        rouge: Callable[[str], list[str]],
        similarity: Callable[[list[tuple[str, str]]], list[float]] | None = None,
    ) -> None:
        self.root, self.study = root, study
        self.rouge, self.similarity = rouge, similarity
        self.metrics: list[str] = study["metrics"]
        self.means: dict[tuple[Value, ...], Row | None] = {}  # by the metric's bounds and the values
        self.questions = self._questions()
        documents = [self.rows("documents", name, "documents") for name in study["corpus"]["sources"]]
        self.texts = {row["doc_id"]: row["text"] for rows in documents for row in rows}
        self.cells = [self._read(cell) for cell in self._cells()]
        varying = [a for a in AXES if len({cell.names[a] for cell in self.cells}) > 1]
        self.varying = varying or ["chunking", "retriever", "generator"]

    # --- what is stored ---------------------------------------------------------------------------------

    def rows(self, stage: str, key: str, file: str) -> list[Row]:
        identity = json.loads((self.root / "pointers" / stage / f"{key}.json").read_text())["identity"]
        place = self.root / stage / identity
        folder = place / json.loads((place / "artifact.json").read_text())["folder"]
        return list(pl.read_parquet(folder / f"{file}.parquet").iter_rows(named=True))

    def _questions(self) -> dict[str, Row]:
        found = {}
        for item in self.study["questions"]:
            name = Path(item["file"]).name.removesuffix(".questions.yaml")
            for row in self.rows("questions", f"{self.study['corpus']['name']}.{name}", "questions"):
                found[row["question_id"]] = row
        return found

    def _cells(self) -> Iterator[Cell]:
        axes = [list(self.study.get(section) or ["none"]) for section in SECTIONS]
        for names in itertools.product(*axes):
            named = dict(zip(AXES, names, strict=True))
            rule = self.study.get("restrict", {}).get(named["generator"], {})
            if all(named[axis] in rule[section] for section, axis in SECTIONS.items() if section in rule):
                yield Cell(".".join([self.study["study"], *names]), named, rule.get("sample"))

    def _read(self, cell: Cell) -> Cell:
        cell.ranked = {row["question_id"]: row for row in self.rows("rankings", cell.ranking, "ranked")}
        for row in sorted(self.rows("rankings", cell.ranking, "hits"), key=lambda row: row["rank"]):
            cell.hits.setdefault(row["question_id"], []).append(row)
        if cell.names["generator"] != "none":
            cell.answers = {row["question_id"]: row for row in self.rows("answers", cell.key, "answers")}
        asked = cell.answers if cell.sample else self.questions
        assert not cell.sample or len(asked) == min(cell.sample, len(self.questions))
        for metric in self.metrics:
            if metric in {"semantic_similarity", "rouge_l", "abstention"} and not cell.answers:
                continue
            cell.values[metric] = self._values(metric, cell, sorted(asked))
        return cell

    # --- one question -----------------------------------------------------------------------------------

    def _values(self, metric: str, cell: Cell, ids: Sequence[str]) -> dict[str, Value]:
        if metric == "semantic_similarity" and self.similarity:
            said = {q: self._pair(q, cell) for q in ids if self.questions[q]["ground_truth"]}
            pairs = [pair for pair in said.values() if pair]
            cosines = iter(self.similarity(pairs) if pairs else [])
            return {q: next(cosines) if pair else None for q, pair in said.items()}
        found = {}
        for question_id in ids:
            applies, value = self._value(metric, self.questions[question_id], cell)
            if applies:
                found[question_id] = value
        return found

    def _pair(self, question_id: str, cell: Cell) -> tuple[str, str] | None:
        answer = cell.answers[question_id]
        usable = answer["status"] in {"ok", "refused"} and answer["answer"]
        return (self.questions[question_id]["ground_truth"], answer["answer"]) if usable else None

    def _value(self, metric: str, question: Row, cell: Cell) -> tuple[bool, Value]:
        """Return whether the metric applies to the question, and the cell's value."""
        name, _, depth = metric.partition("@")
        question_id = question["question_id"]
        ranked, answer = cell.ranked[question_id], cell.answers.get(question_id)
        if depth:
            golds = {"spans"} if name == "evidence_coverage" else {"spans", "documents"}
            if question["gold"] not in golds or ranked["status"] != "ok":
                return question["gold"] in golds, None
            value = RETRIEVAL[name](question, cell.hits.get(question_id, []), int(depth))
            return True, value
        if metric == "rouge_l":
            words = self.rouge(question["ground_truth"] or "")
            pair = self._pair(question_id, cell) if words else None
            return bool(words), _rouge(words, self.rouge(pair[1])) if pair else None
        return True, PLAIN[metric](question, ranked, answer or {})

    # --- one cell ---------------------------------------------------------------------------------------

    def subsets(self) -> dict[str, list[Cell]]:
        """Return subset -> its cells, and what they are compared on: `asked`."""
        found = {"all": [cell for cell in self.cells if cell.sample is None]}
        for size in {cell.sample for cell in self.cells} - {None}:
            found[f"sample of {size}"] = [c for c in self.cells if c.sample in {None, size}]
        return {name: cells for name, cells in found.items() if cells}

    def asked(self, subset: str) -> list[str]:
        if subset == "all":
            return sorted(self.questions)
        size = int(subset.removeprefix("sample of "))
        return sorted({q for cell in self.cells if cell.sample == size for q in cell.answers})

    def mean(self, cell: Cell, metric: str, ids: Iterable[str]) -> Row | None:
        """Return value, n, coverage and both ends of the bootstrap interval; None where nothing applies."""
        measured = cell.values.get(metric, {})
        mine = tuple(measured[question_id] for question_id in ids if question_id in measured)
        key = (LEAST.get(metric, 0.0), MOST.get(metric, 1.0), *mine)
        if key not in self.means:
            self.means[key] = _mean(mine, key[:2], self.study.get("seed", 7))
        return self.means[key]

    @cache  # noqa: B019 -- a recount lives as long as its test
    def ranks(self, subset: str) -> dict[str, int | None]:
        """Return cell -> rank by the first metric; equal values share one."""
        first = self.metrics[0]
        sign = 1 if first.endswith(("latency", "tokens")) else -1
        ids = self.asked(subset)
        able: dict[str, float] = {}
        for cell in self.subsets()[subset]:
            found = self.mean(cell, first, ids)
            if found and found["value"] is not None and (self.share(cell, first, ids) or 0) >= SURE:
                able[cell.key] = round(sign * found["value"], 12)
        return {
            cell.key: 1 + sum(other < able[cell.key] for other in able.values()) if cell.key in able else None
            for cell in self.subsets()[subset]
        }

    def answered(self, cell: Cell, ids: Sequence[str]) -> Value:
        """Return the share of questions that a generator answered or refused; 0 where it only refuses."""
        if not cell.answers:
            return None
        rows = {q: cell.answers[q] for q in ids if q in cell.answers}
        said = [q for q, row in rows.items() if row["status"] == "ok" and row["answer"]]
        refused = [q for q, row in rows.items() if row["status"] in {"refused", "no_context"}]
        wrongly = any(self.questions[q]["answerable"] for q in refused)
        return 0.0 if wrongly and not said else (len(said) + len(refused)) / len(ids)

    def share(self, cell: Cell, metric: str, ids: Sequence[str]) -> Value:
        """Return the share of questions with a value and, where there is a generator, an answer."""
        mean, answered = self.mean(cell, metric, ids), self.answered(cell, ids)
        return None if mean is None else min(mean["coverage"], 1.0 if answered is None else answered)

    def difference(self, cell: Cell, leader: str, metric: str, subset: str) -> Value:
        """Return the mean difference from the leader on the questions of both; None: not compared."""
        ids, ranks = self.asked(subset), self.ranks(subset)
        other = next(one for one in self.cells if one.key == leader)
        both = [one for one in (cell, other) if ranks[one.key] is not None]
        if len(both) < 2 or min(self.share(one, metric, ids) or 0 for one in both) < SURE:
            return None
        pairs = [(cell.values[metric].get(q), other.values[metric].get(q)) for q in ids]
        apart = [one - two for one, two in pairs if one is not None and two is not None]
        return math.fsum(apart) / len(apart)

    def label(self, cell: Cell, axes: Sequence[str] = ()) -> str:
        names = [cell.names[axis] for axis in axes or self.varying]
        return " · ".join(name for name in names if name != "none")


def _mean(mine: Sequence[Value], bounds: tuple[float, float], seed: int) -> Row | None:
    if not mine:
        return None
    values = [value for value in mine if value is not None]
    found: Row = {"n": len(mine), "coverage": len(values) / len(mine)}
    if len(values) < 2:
        return found | {"value": values[0] if values else None, "low": None, "high": None}
    mean = math.fsum(values) / len(values)
    low, high = _interval(mine, mean, bounds, seed)
    return found | {"value": mean, "low": max(low, bounds[0]), "high": min(high, bounds[1])}


def _interval(
    mine: Sequence[Value], mean: float, bounds: tuple[float, float], seed: int
) -> tuple[float, float]:
    """Return both ends of the mean's interval over questions that stand each for themselves.

    Of a metric with two bounds Wilson's, the design effect shrunk towards 1 by the weight of one question;
    else m - q s and m + q s, with q of the resamples' |t|.
    """
    values = [value for value in mine if value is not None]
    n, spread = len(values), math.fsum((value - mean) ** 2 for value in values)
    error = 0.0 if spread < 1e-20 else math.sqrt(spread / (n - 1) / n)
    quantile_of_t = float(scipy.stats.t.ppf(0.975, n - 1))
    lowest, highest = bounds
    if math.isfinite(lowest) and math.isfinite(highest):
        width = highest - lowest
        share = (mean - lowest) / width
        variance = share * (1 - share)
        effect = (error / width) ** 2 * n / variance if variance > 1e-15 else 1.0
        ends = _wilson(share, n / ((effect * (n - 1) + 1) / n), quantile_of_t)
        return lowest + width * ends[0], lowest + width * ends[1]
    draws = np.random.default_rng(seed).integers(0, len(mine), size=(2000, len(mine)))
    ts = sorted(_t([mine[at] for at in drawn], mean) for drawn in draws.tolist())
    bound = ts[math.ceil(0.95 * (len(ts) - 1))]
    half = (quantile_of_t if math.isinf(bound) else bound) * error if error else 0.0
    return mean - half, mean + half


def _t(drawn: Sequence[Value], mean: float) -> float:
    """Return |t| of what was drawn, around the mean of all."""
    apart = [value - mean for value in drawn if value is not None]
    n = max(len(apart), 1)
    centre = math.fsum(apart) / n
    if abs(centre) < 1e-12:
        return 0.0
    spread = math.fsum((value - centre) ** 2 for value in apart)
    return math.inf if spread < 1e-20 else abs(centre) / math.sqrt(spread / (n - 1) / n)


def _wilson(share: float, n: float, quantile_of_t: float) -> tuple[float, float]:
    z = quantile_of_t**2 / n
    half = math.sqrt(z * share * (1 - share) + z * z / 4)
    return max(0.0, (share + z / 2 - half) / (1 + z)), min(1.0, (share + z / 2 + half) / (1 + z))


def _grades(question: Row) -> dict[str, int]:
    grades: dict[str, int] = {}
    for number, item in enumerate(question["evidence"]):
        document = item["doc_id"] or f"nowhere {number}"
        grades[document] = max(grades.get(document, 0), item["grade"])
    return grades


def _documents(hits: list[Row], depth: int) -> list[str]:
    found: list[str] = []
    for hit in hits:
        if hit["doc_id"] not in found:
            found.append(hit["doc_id"])
    return found[:depth]


def _ndcg(question: Row, hits: list[Row], depth: int) -> float:
    grades = _grades(question)
    gains = [grades.get(document, 0) for document in _documents(hits, depth)]
    best = sorted(grades.values(), reverse=True)[:depth]
    if question["needs"] == "any":
        kept = [i for i, gain in enumerate(gains) if gain][:1]
        gains = [gain if i in kept else 0 for i, gain in enumerate(gains)]
        best = best[:1]
    found, ideal = (sum(g / math.log2(i + 2) for i, g in enumerate(row)) for row in (gains, best))
    return found / ideal


def _reciprocal(question: Row, hits: list[Row], depth: int) -> float:
    places = [i for i, document in enumerate(_documents(hits, depth), 1) if document in _grades(question)]
    return 1 / places[0] if places else 0.0


def _hit_rate(question: Row, hits: list[Row], depth: int) -> float:
    return 1.0 if _grades(question).keys() & set(_documents(hits, depth)) else 0.0


def _recall(question: Row, hits: list[Row], depth: int) -> float:
    wanted = _grades(question).keys()
    found = len(wanted & set(_documents(hits, depth)))
    return min(found, 1) if question["needs"] == "any" else found / len(wanted)


def covered(item: Row, hits: list[Row]) -> set[int]:
    """Return the characters of a piece of evidence that hits hold."""
    wanted = set(range(item["start"], item["end"]))
    return {
        at
        for hit in hits
        if hit["doc_id"] == item["doc_id"]
        for at in wanted & set(range(hit["start"], hit["end"]))
    }


def _coverage(question: Row, hits: list[Row], depth: int) -> float:
    shares, seen, length = [], 0, 0
    for item in question["evidence"]:
        if item["start"] is None:
            length += len(item["quote"] or "")
            continue
        found = len(covered(item, hits[:depth]))
        shares.append(found / (item["end"] - item["start"]))
        seen, length = seen + found, length + item["end"] - item["start"]
    return max(shares, default=0.0) if question["needs"] == "any" else seen / length


RETRIEVAL: dict[str, Callable[[Row, list[Row], int], float]] = {
    "ndcg": _ndcg,
    "mrr": _reciprocal,
    "hit_rate": _hit_rate,
    "recall": _recall,
    "evidence_coverage": _coverage,
}


def _tokens(_question: Row, _ranked: Row, answer: Row) -> Value:
    tokens = [answer.get("prompt_tokens"), answer.get("completion_tokens")]
    return None if None in tokens else sum(tokens)


def _abstention(question: Row, _ranked: Row, answer: Row) -> Value:
    status = answer.get("status")
    return float((status == "refused") != question["answerable"]) if status in {"ok", "refused"} else None


PLAIN: dict[str, Callable[[Row, Row, Row], Value]] = {
    "retrieval_latency": lambda _question, ranked, _answer: ranked["seconds"],
    "answer_latency": lambda _question, _ranked, answer: answer.get("seconds"),
    "tokens": _tokens,
    "abstention": _abstention,
}


def _rouge(reference: list[str], said: list[str]) -> float:
    lengths = [0] * (len(said) + 1)
    for word in reference:
        before = 0
        for at, other in enumerate(said, 1):
            before, lengths[at] = (
                lengths[at],
                before + 1 if word == other else max(lengths[at], lengths[at - 1]),
            )
    common = lengths[-1]
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
