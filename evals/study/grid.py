"""The partition keys of all studies together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_assay.assets.recipes.build_half import Build
from rag_assay.evals.question_sets.readers import WrittenSet, read_set, read_sets, suffix_of
from rag_assay.evals.question_sets.readers.contract import SetFile
from rag_assay.evals.study.cells import MARK, NO_GENERATOR, Cell, JudgedCell
from rag_assay.warehouse.identity import digest

if TYPE_CHECKING:
    from rag_assay.evals.study.sections import BeirQuestions, QuestionSource
    from rag_assay.evals.study.study import Study


def written_questions(grid: Grid, key: str) -> list[dict[str, Any]]:
    one, source = grid.sets[key], source_of_set(grid, key)
    rows = one.asked(read_set(one.source))
    if one.beir is None:
        return rows
    return [{**row, "evidence": [{**item, "source": source} for item in row["evidence"]]} for row in rows]


def source_of_set(grid: Grid, key: str) -> str | None:
    question_set = grid.sets[key]
    if question_set.beir is None:
        return None
    for name in grid.build.corpora[question_set.corpus].sources:
        source = grid.build.sources[name]
        path = Path(source.path or "")
        folder = path.parent if path.is_file() else path
        if source.reader == "beir" and folder.resolve() == question_set.path.resolve():
            return name
    return None


def set_name(path: Path) -> str:
    name = path.name.lower()
    return name.removesuffix(suffix_of(path)).removesuffix(".questions").replace(".", "-")


@dataclass(frozen=True)
class QuestionSet:
    """Questions asked of one corpus; judged_alone: they may have neither ground truth nor evidence."""

    name: str
    corpus: str
    path: Path
    said: QuestionSource
    judged_alone: bool = False
    only: frozenset[str] | None = None

    @property
    def key(self) -> str:
        part = "" if self.only is None else f"{MARK}{digest(sorted(self.only))[:8]}"
        return f"{self.corpus}.{self.name}{part}"

    def asked(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if self.only is None or row["question_id"] in self.only]

    @property
    def use(self) -> str:
        return self.said.use

    @property
    def beir(self) -> BeirQuestions | None:
        return self.said.beir

    @property
    def source(self) -> WrittenSet:
        day = self.said.asked_at.isoformat() if self.said.asked_at else None
        file = SetFile(self.path, self.name, self.said.language, day, self.judged_alone)
        split = self.said.beir.split if self.said.beir else None
        return WrittenSet(file, self.said.format, split, self.said.evidence)

    @property
    def meaning(self) -> list[Any]:
        if self.said.beir is not None:
            beside = {} if self.said.evidence is None else {"evidence": self.said.evidence}
            return [self.said.beir.model_dump(exclude={"path"}), *([beside] if beside else [])]
        keys = {"format", "language", "asked_at", "evidence"}
        said = self.said.model_dump(mode="json", include=keys, exclude_none=True)
        if not self.said.is_yaml:
            said["ending"] = suffix_of(self.path)
        return [said] if said else []


class Grid:
    """Partition keys of all studies, and what they stand for."""

    def __init__(self, studies: list[Study]) -> None:
        self.studies = {study.study: study for study in studies}
        self.build = Build.of([(study, study.indexes(), study.base) for study in studies])
        self.cells: dict[str, Cell] = {cell.key: cell for study in studies for cell in study.runs()}
        self.judged: dict[str, JudgedCell] = {
            one.key: one for cell in self.cells.values() for one in self.judgements_of(cell)
        }
        self.rankings: dict[str, Cell] = {
            cell.ranking: cell for cell in self.cells.values() if cell.reads_ranking
        }
        self._sets_of = {study.study: question_sets(study) for study in studies}  # each a look at the disk
        self.sets: dict[str, QuestionSet] = {one.key: one for sets in self._sets_of.values() for one in sets}

    def judgements_of(self, cell: Cell) -> list[JudgedCell]:
        return [JudgedCell(cell, name) for name in self.studies[cell.study].judged_by(cell)]

    def cards_of(self, study: str) -> list[str]:
        judging = {one.judge for one in self.judged.values() if one.cell.study == study}
        return [f"{study}.{name}" for name in self.studies[study].judges if name in judging]

    def index_key(self, cell: Cell) -> str:
        return f"{self.studies[cell.study].corpus.name}.{cell.chunking}.{cell.embedder}"

    def set_keys(self, study: str) -> list[str]:
        return [one.key for one in self._sets_of[study] if one.use == "test"]

    def train_keys(self, study: str) -> list[str]:
        return [one.key for one in self._sets_of[study] if one.use == "train"]

    def answered(self) -> list[str]:
        return [key for key, cell in self.cells.items() if cell.generator != NO_GENERATOR]


def read_questions_of(study: Study) -> list[dict[str, Any]]:
    sets = question_sets(study)
    rows = _read(sets)
    test_sets = [one for one in sets if one.use == "test"]
    return rows if len(test_sets) == len(sets) else _read(test_sets)


def read_train_questions_of(study: Study) -> list[dict[str, Any]]:
    return _read([one for one in question_sets(study) if one.use == "train"])


def _read(sets: list[QuestionSet]) -> list[dict[str, Any]]:
    rows = read_sets(one.source for one in sets)
    only = frozenset[str]().union(*(one.only for one in sets if one.only is not None))
    return [row for row in rows if row["question_id"] in only] if only else rows


def question_sets(study: Study) -> list[QuestionSet]:
    found = []
    part = study.slice.questions if study.slice else None
    for source in study.questions:
        only = part if source.use == "test" else None
        if source.beir:
            name, path = source.beir.name, study.resolve(source.beir.path)
        else:
            path = study.resolve(source.file or "")
            name = source.name or set_name(path)
        found.append(QuestionSet(name, study.corpus.name, path, source, study.judged_alone, only))
    return found
