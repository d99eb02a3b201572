"""What a cell is measured by: its questions with what was ranked and answered, each with its digest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rag_assay.assets.engine.stage import BuildContext, Resource
from rag_assay.assets.indexing.index_rows import moment
from rag_assay.evals.generation.citations import claims, without_markers
from rag_assay.evals.judging.judge_metrics import JudgedScores
from rag_assay.evals.metrics.contract import (
    Case,
    Citations,
    CitedSpan,
    DocumentFacts,
    DocumentRow,
    EvaluatedAnswer,
    Metric,
    MetricContext,
    Ranked,
    Reading,
    Score,
    document_facts,
)
from rag_assay.evals.metrics.reuse import StoredScores, identity_of
from rag_assay.evals.pipeline.passages import contexts_of
from rag_assay.evals.pipeline.stage_inputs import budget_of, read_questions, read_rows, sampled_questions
from rag_assay.evals.pipeline.system_answers import ranked_by_system
from rag_assay.evals.question_sets.evidence import gold_of
from rag_assay.evals.rubrics.human_rating_metrics import PeopleScores, said
from rag_assay.evals.rubrics.rubric import metric_name
from rag_assay.evals.study.cells import Cell
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.call_tags import Purpose
from rag_assay.warehouse.parquet import read_parquet
from rag_assay.warehouse.schemas import Status
from rag_assay.warehouse.spans import Span

NO_RANKING = "reads no ranking"
"""Why a metric of retrieval has no value in a cell whose generator reads the evidence, or nothing."""
NO_RANKING_KNOWN = "a sheet does not say where in which document its contexts stand"
"""Why it has none in a cell that was imported."""


class CellCases(NamedTuple):
    """The cases of one cell, with digests of what they are made of."""

    cases: list[Case]
    questions: str
    digests: dict[Reading, str]
    judgements: dict[str, str]
    annotations: dict[str, str]

    def identity_of(self, metric: Metric) -> str:
        judged = self.judgements[metric.judge] if isinstance(metric, JudgedScores) else ""
        said = self.annotations[metric.name] if isinstance(metric, PeopleScores) else ""
        return identity_of(
            metric, self.questions, {**self.digests, "judgements": judged, "annotations": said}
        )


def read_cases(
    study: Study, cell: Cell, inputs: list[Artifact], judgements: Mapping[str, Artifact], work: BuildContext
) -> CellCases:
    by_stage = {artifact.stage: artifact for artifact in inputs}
    with_markers = cell.generator in study.generators and study.generators[cell.generator].writes_markers
    answers, answer_digests = _answers(by_stage.get("answers"), with_markers, work)
    questions = sampled_questions(study, cell, read_questions(inputs, work))
    if cell.imported:  # a further replicate is of those that its sheet has rows of
        questions = questions.filter(pl.col("question_id").is_in([*answers]))
    sets = [artifact.data_version for artifact in inputs if artifact.stage == "questions"]
    ids = questions["question_id"].to_list()
    if cell.is_system:
        ranking = _ranked_by_system(by_stage["answers"], work, has_documents=bool(study.corpus.sources))
    elif cell.reads_ranking:
        ranking = work.resource(ScoreResources).ranking(by_stage["rankings"])
    else:
        reason = NO_RANKING_KNOWN if cell.imported else NO_RANKING
        told, nothing = digest(reason), Ranked(Status.NOT_RUN, reason)
        ranking = RankedQuestions({}, dict.fromkeys(ids, nothing), {"ranking": told, "retrieval_cost": told})
    annotated = _annotated(study, cell, inputs, answers, work)
    documents = work.resource(ScoreResources).documents([a for a in inputs if a.stage == "documents"])
    judged: dict[str, dict[str, tuple[Score, ...]]] = {}
    for name, artifact in judgements.items():
        for question_id, found in judged_scores(name, artifact, work).items():
            judged.setdefault(question_id, {}).update(found)
    cases = [
        Case(
            question,
            gold_of(question),
            ranking.hits.get(question["question_id"], ()),
            ranking.ranked[question["question_id"]],
            answers.get(question["question_id"]),
            documents.facts,
            judged.get(question["question_id"], {}),
            {
                name: found[question["question_id"]]
                for name, found in annotated.items()
                if question["question_id"] in found
            },
        )
        for question in questions.iter_rows(named=True)
    ]
    digests: dict[Reading, str] = {**ranking.digests, **answer_digests, "documents": documents.digest}
    by_judge = {name: digest([one.data_version, one.measured]) for name, one in judgements.items()}
    by_people = {name: digest(sorted(map(list, found.items()))) for name, found in annotated.items()}
    return CellCases(cases, digest([sets, ids]), digests, by_judge, by_people)


def _annotated(
    study: Study,
    cell: Cell,
    inputs: list[Artifact],
    answers: Mapping[str, EvaluatedAnswer],
    work: BuildContext,
) -> dict[str, dict[str, Score]]:
    names = [one.name for one in study.metrics_of(cell) if isinstance(one, PeopleScores)]
    artifact = next((one for one in inputs if one.stage == "annotations"), None)
    if artifact is None or not names:
        return {name: {} for name in names}
    failed = {
        question: Score(one.status, reason=one.reason or str(one.status))
        for question, one in answers.items()
        if one.status not in {Status.OK, Status.REFUSED}
    }
    found = {name: dict(failed) for name in names}
    rows = work.resource(ScoreResources).annotations(artifact).get(cell.key)
    for row in [] if rows is None else rows.iter_rows(named=True):
        found[metric_name(row["rubric"], row["criterion"])][row["question_id"]] = said(row)
    return found


def judged_scores(
    judge: str, artifact: Artifact, work: BuildContext
) -> dict[str, dict[str, tuple[Score, ...]]]:
    columns = ["question_id", "metric", "replicate", "status", "value", "reason"]
    rows = read_rows(artifact, work.store, columns)
    found: dict[str, dict[str, tuple[Score, ...]]] = {}
    for question, metric, _, status, value, reason in rows.sort("replicate").iter_rows():
        of_question = found.setdefault(question, {})
        name = f"{judge}.{metric}"
        of_question[name] = (*of_question.get(name, ()), Score(Status(status), value, reason))
    return found


class RankedQuestions(NamedTuple):
    """A ranking as metrics read it, by question id."""

    hits: dict[str, tuple[Span, ...]]
    ranked: dict[str, Ranked]
    digests: dict[Reading, str]


class CorpusFacts(NamedTuple):
    """What metrics may know of the documents of a corpus, by id."""

    facts: dict[str, DocumentFacts]
    digest: str


class ScoreResources(Resource):
    """What the scores of a run share: stored scores, what metrics may use, what was read last."""

    def __init__(self, work: BuildContext) -> None:
        super().__init__(work)
        self.stored = StoredScores(work.store, lambda artifact: not work.damage(artifact))
        self._contexts: dict[str, MetricContext] = {}
        self._ranking: tuple[tuple[str, str], RankedQuestions] | None = None
        self._annotations: tuple[str, dict[str, pl.DataFrame]] | None = None
        self._documents: tuple[list[tuple[str, str]], CorpusFacts] | None = None

    def context(self, study: Study) -> MetricContext:
        if study.study not in self._contexts:
            purpose = Purpose("metrics", study.study)
            self._contexts[study.study] = MetricContext(self.work.home, budget_of(study, self.work), purpose)
        return self._contexts[study.study]

    def ranking(self, artifact: Artifact) -> RankedQuestions:
        key = (artifact.identity, artifact.data_version)
        if self._ranking is None or self._ranking[0] != key:
            folder = self.work.store.folder(artifact.stage, artifact.identity)
            self._ranking = (key, _ranking(folder, artifact.data_version))
        return self._ranking[1]

    def annotations(self, artifact: Artifact) -> dict[str, pl.DataFrame]:
        if self._annotations is None or self._annotations[0] != artifact.identity:
            found = read_rows(artifact, self.work.store).partition_by("cell", as_dict=True)
            self._annotations = (artifact.identity, {str(cell): rows for (cell,), rows in found.items()})
        return self._annotations[1]

    def documents(self, artifacts: list[Artifact]) -> CorpusFacts:
        key = [(artifact.identity, artifact.data_version) for artifact in artifacts]
        if self._documents is None or self._documents[0] != key:
            self._documents = (key, _corpus_facts(artifacts, self.work))
        return self._documents[1]

    def close(self) -> None:
        for context in self._contexts.values():
            context.close()


def _ranking(folder: Path, data_version: str) -> RankedQuestions:
    found: dict[str, list[Span]] = {}
    hits = read_parquet(folder / "hits.parquet").sort("question_id", "rank")
    for question, doc, start, end in hits.select("question_id", "doc_id", "start", "end").iter_rows():
        found.setdefault(question, []).append(Span(doc, start, end))
    rows = read_parquet(folder / "ranked.parquet").select("question_id", "status", "reason", "seconds")
    ended = [[data_version], *map(list, rows.drop("seconds").rows())]
    digests: dict[Reading, str] = {
        "ranking": digest(ended),
        "retrieval_cost": digest([ended, rows["seconds"].to_list()]),
    }
    ranked = {
        question: Ranked(Status(status), reason, seconds)
        for question, status, reason, seconds in rows.iter_rows()
    }
    return RankedQuestions({question: tuple(spans) for question, spans in found.items()}, ranked, digests)


def _ranked_by_system(answers: Artifact, work: BuildContext, *, has_documents: bool) -> RankedQuestions:
    rows = read_rows(answers, work.store)
    spans, ended = ranked_by_system(rows, contexts_of(work.store, answers), has_documents=has_documents)
    told = digest(sorted([question, *one] for question, one in ended.items()))
    placed = digest([told, sorted([question, *map(list, found)] for question, found in spans.items())])
    return RankedQuestions(spans, ended, {"ranking": placed, "retrieval_cost": told})


def _corpus_facts(artifacts: list[Artifact], work: BuildContext) -> CorpusFacts:
    columns = ["doc_id", "published_at", "title", "text"]
    rows: list[DocumentRow] = []
    for artifact in artifacts:
        for doc, published, title, text in read_rows(artifact, work.store, columns).iter_rows():
            day = moment(published)
            rows.append(DocumentRow(doc, day.date().isoformat() if day else None, title, text))
    facts = document_facts(rows)
    return CorpusFacts(facts, digest([[doc, *facts[doc]] for doc in sorted(facts)]))


def _answers(
    artifact: Artifact | None, with_markers: bool, work: BuildContext
) -> tuple[dict[str, EvaluatedAnswer], dict[Reading, str]]:
    if artifact is None:
        return {}, {"answer": "", "citations": "", "answer_cost": ""}
    rows = read_rows(artifact, work.store)
    if with_markers:
        plain = [text and without_markers(text) for text in rows["answer"]]
        rows = rows.with_columns(citing=pl.col("answer"), answer=pl.Series(plain, dtype=pl.String))
    texts = ["question_id", "status", "reason", "answer"]
    costs = ["seconds", "prompt_tokens", "completion_tokens"]
    citations = [_citations(row, with_markers) for row in rows.iter_rows(named=True)]
    digests: dict[Reading, str] = {
        "answer": digest(list(map(list, rows.select(texts).rows()))),
        "citations": digest(
            [[*ended, one] for ended, one in zip(rows.select(texts[:3]).rows(), citations, strict=True)]
        ),
        "answer_cost": digest(list(map(list, rows.select(*texts[:3], *costs).rows()))),
    }
    ended = rows.select(*texts, *costs).iter_rows()
    answers = {
        row[0]: EvaluatedAnswer(Status(row[1]), *row[2:])._replace(citations=one)
        for row, one in zip(ended, citations, strict=True)
    }
    return answers, digests


def _citations(row: dict[str, Any], with_markers: bool) -> Citations | None:
    found = row.get("citations")
    if found is None:
        return None
    sentences = len(claims(row["citing" if with_markers else "answer"] or ""))
    return Citations(sentences, tuple(_cited(one) for one in found))


def _cited(one: dict[str, Any]) -> CitedSpan:
    span = None if one["chunk_id"] is None else Span(one["doc_id"], one["start"], one["end"])
    return CitedSpan(one["marker"], one["sentence"], span)
