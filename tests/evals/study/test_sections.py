"""Sections of a study as they are written: the budget, what people score."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.study.sections import Annotation
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.inference.budget import Caps
from tests.fakes.tiny import write_study


@pytest.mark.parametrize(
    ("written", "caps"),
    [
        ("{usd: 5}", Caps(usd=5.0)),
        ("{usd: 0.5, tokens: 2_000_000, calls: 10_000}", Caps(0.5, 2_000_000, 10_000)),
        ("{calls: 0}", Caps(calls=0)),
    ],
)
def test_a_budget_caps_dollars_tokens_and_calls(written: str, caps: Caps, tmp_path: Path) -> None:
    path = write_study(tmp_path, {"seed: 7\n": f"seed: 7\nbudget: {written}\n"})
    budget = read_study(path).budget
    assert budget is not None
    assert budget.caps == caps


def test_a_study_that_people_do_not_score_needs_no_section_for_it(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path))
    assert (study.rubrics, study.annotation) == ({}, Annotation())
    assert Study.model_validate(study.model_dump()) == study
