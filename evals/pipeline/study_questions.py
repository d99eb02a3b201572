"""Questions of a study as they are stored, found again by what a person types."""

from __future__ import annotations

import unicodedata
from typing import Any

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study import Study


def known_question(study: Study, text: str, work: BuildContext) -> dict[str, Any] | None:
    """Return the question of a study that has this id or these words (a row of `schemas.QUESTIONS`).

    Its evidence is that of the last run. None: the study does not ask it, or was not run.
    """
    return StudyQuestions(study, work).named(text)


class StudyQuestions:
    """The questions of a study as the last run stored them; none, where it was not run."""

    def __init__(self, study: Study, work: BuildContext) -> None:
        found = [work.store.current("questions", key) for key in Grid([study]).set_keys(study.study)]
        artifacts = [artifact for artifact in found if artifact is not None]
        rows = list(read_questions(artifacts, work).iter_rows(named=True)) if artifacts else []
        self._by_id = {row["question_id"]: row for row in reversed(rows)}
        self._by_words = {_plain(row["question"]): row for row in reversed(rows)}

    @property
    def texts(self) -> list[str]:
        return [row["question"] for row in self._by_words.values()]

    def known(self, words: str) -> dict[str, Any] | None:
        """Return the first question with these words, whatever their case and white space."""
        return self._by_words.get(_plain(words))

    def named(self, text: str) -> dict[str, Any] | None:
        """Return the question that has this id, else the first with these words."""
        return self._by_id.get(text) or self.known(text)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()
