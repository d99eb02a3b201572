"""Question sets in the forms of other tools, by the name of the form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rag_assay.evals.question_sets.exporters.beir import beir
from rag_assay.evals.question_sets.exporters.contract import ExportInput, QuestionExport
from rag_assay.evals.question_sets.exporters.ragas import ragas
from rag_assay.evals.question_sets.exporters.squad import squad

FORMS: Mapping[str, Callable[[ExportInput], QuestionExport]] = {"ragas": ragas, "beir": beir, "squad": squad}
