"""Questions that users asked in the chat, on their way into a question set: a review file beside the study
file, from which accepted ones become a question file that the study lists.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.pipeline.cell_items import StudyQuestions
from rag_assay.evals.question_generation.from_conversations import (
    HEADING,
    ConversationQuestion,
    Only,
    questions_in,
    questions_of,
)
from rag_assay.evals.question_generation.llm.candidates import corpus_frame, documents_of
from rag_assay.evals.question_generation.question_file import embed_for
from rag_assay.evals.question_generation.review import (
    ReviewedQuestion,
    ReviewFile,
    read_review,
    with_earlier_reviews,
    write_review,
)
from rag_assay.evals.question_sets.question_files import write_yaml
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.conversations import Conversations
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home

_FLOW = re.compile(r"^(questions:[ \t]*\[[^#\n]*[^\s#,])([ \t]*,?[ \t]*\][ \t]*)$", re.MULTILINE)
_TURN = threading.Lock()
_BLOCK = re.compile(r"^questions:[ \t]*(?:#.*)?\n(?:(?:[ \t]*#.*|[ \t]*)\n)*([ \t]*)- ", re.MULTILINE)


def review_of(
    study: Study, asked: Sequence[ConversationQuestion], set_name: str, named: str, work: BuildContext
) -> ReviewFile:
    several = len(study.corpus.sources) > 1
    documents = documents_of(corpus_frame(study, work))
    pages = {one.doc_id: (one.url, one.source if several else None) for one in documents}
    known = StudyQuestions(study, work).texts
    questions = questions_of(asked, known, embed_for(study, work), pages)
    languages = [one.language or "en" for one in questions]
    language = max(sorted(set(languages)), key=languages.count, default="en")
    return ReviewFile(question_set=set_name, language=language, study=named, questions=questions)


def texts_in(study: Study, work: BuildContext) -> Callable[[str, str | None], list[str]]:
    documents = documents_of(corpus_frame(study, work))

    def texts_of(url: str, source: str | None) -> list[str]:
        return [one.text for one in documents if one.url == url and source in (None, one.source)]

    return texts_of


class ChatReview:
    """The review of a study's chat questions; thread-safe. questions: path of the file that it makes"""

    def __init__(self, study: Study, home: Home) -> None:
        self.study = study
        self.home = home
        self.set_name = f"{study.study}-asked"
        self.path = study.path.with_name(f"{self.set_name}.review.yaml")
        self.questions = study.path.with_name(f"{self.set_name}.questions.yaml")

    def file(self, only: Only = "down") -> ReviewFile:
        asked = [one for one in questions_in(Conversations(self.home).of(self.study.study)) if one.fits(only)]
        with closing(BuildContext(self.home)) as work:
            study = read_study(self.study.path)  # it may have been edited since the page was opened
            found = review_of(study, asked, self.set_name, study.path.name, work)
        return with_earlier_reviews(found, self.path) if self.path.exists() else found

    def decide(self, file: ReviewFile, question: ReviewedQuestion) -> ReviewFile:
        with _TURN:
            is_there = self.path.exists()  # perhaps of `questions from-chat`, with more questions
            current = with_earlier_reviews(file, self.path, keep_open=True) if is_there else file
            every = (question if one.id == question.id else one for one in current.questions)
            decided = current.model_copy(update={"questions": tuple(every)})
            write_review(self.path, decided, HEADING)
        return decided

    def add_to_study(self) -> int:
        """Write the accepted questions as a file that the study lists; raises InputError with nothing
        changed.
        """
        if self.study.path.resolve().parent == BUNDLED.resolve():
            name = self.study.path.name
            raise InputError(
                f"{name} is part of rag-assay and cannot be changed; copy it to a study of your own"
            )
        with _TURN, closing(BuildContext(self.home)) as work:
            read = read_review(self.path, texts_in(read_study(self.study.path), work))
            text = self.study.path.read_text(encoding="utf-8")
            edited = with_question_file(text, self.questions.name)
            before = self.questions.read_bytes() if self.questions.exists() else None
            write_yaml(read.rows, self.questions)
            if edited != text:
                _replace(self.study.path, edited)
                try:
                    read_study(self.study.path)
                except InputError:
                    _replace(self.study.path, text)
                    if before is None:
                        self.questions.unlink()
                    else:
                        self.questions.write_bytes(before)
                    raise
        return len(read.rows)


def _replace(path: Path, text: str) -> None:
    with atomic_write(path) as new:
        new.write_text(text, encoding="utf-8")


def with_question_file(text: str, name: str) -> str:
    r"""Return the text of a study file that lists a question file too.

    It is the last one of a list on one line, and the first one of a list of lines.

    >>> with_question_file("study: s\nquestions: [{file: a.yaml}]\n", "b.yaml")
    'study: s\nquestions: [{file: a.yaml}, {file: b.yaml}]\n'
    >>> print(with_question_file("questions:\n  - file: a.yaml\nmetrics: [mrr]\n", "b.yaml"))
    questions:
      - file: b.yaml
      - file: a.yaml
    metrics: [mrr]
    <BLANKLINE>
    """
    if re.search(rf"^[^#\n]*\bfile:[ \t]*[\"']?{re.escape(name)}(?![\w.-])", text, re.MULTILINE):
        return text
    if found := _FLOW.search(text):
        return f"{text[: found.end(1)]}, {{file: {name}}}]{text[found.end(2) :]}"
    if found := _BLOCK.search(text):
        at = found.start(1)
        return f"{text[:at]}{found[1]}- file: {name}\n{text[at:]}"
    raise InputError(f"add `- file: {name}` to `questions` of the study file; it could not be edited here")
