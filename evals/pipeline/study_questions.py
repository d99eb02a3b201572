"""Questions of a study as they are stored, found again by what a person types."""

from __future__ import annotations

import unicodedata
from typing import Any

from assets.engine.stage import Work
from evals.pipeline.stage_inputs import read_questions
from evals.study.grid import Grid
from evals.study.study import Study


def known_question(study: Study, text: str, work: Work) -> dict[str, Any] | None:
    """Return the question of a study that has this id or these words (a row of `schemas.QUESTIONS`).

    Its evidence is that of the last run. None: the study does not ask it, or was not run.
    """
    grid = Grid([study])
    found = [work.store.current("questions", key) for key in grid.set_keys(study.study)]
    artifacts = [artifact for artifact in found if artifact is not None]
    if not artifacts:
        return None
    wanted = _plain(text)
    rows = list(read_questions(artifacts, work).iter_rows(named=True))
    by_id = next((row for row in rows if row["question_id"] == text), None)
    return by_id or next((row for row in rows if _plain(row["question"]) == wanted), None)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()
