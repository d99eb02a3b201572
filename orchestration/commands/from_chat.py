"""`assay questions from-chat`: what people asked in conversations, as a file for a person to look at."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.commands.finding import home_of, whole_study_of
from orchestration.terminal.speaking import StudyArgument, plainly, say
from warehouse.errors import InputError

if TYPE_CHECKING:
    from evals.making.from_use import Asked
    from evals.making.review import ReviewFile
    from evals.study.study import Study
    from warehouse.paths import Home

app = typer.Typer()


class Only(StrEnum):
    """Which questions are taken."""

    down = "down"
    up = "up"
    declined = "declined"
    all = "all"


@app.command("from-chat")
@plainly
def from_chat(
    study: StudyArgument,
    only: Annotated[
        Only, typer.Option(help="With a thumb down, with a thumb up, declined by every cell, or all.")
    ] = Only.all,
    name: Annotated[str | None, typer.Option(help="Of the question set; STUDY-asked unless said.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "--out", "-o", help="The review file.", dir_okay=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Forget what was said in a file of them.")] = False,
) -> None:
    """Write the questions that people asked in conversations as a review file; a person accepts them."""
    from evals.making.from_use import HEADING, asked_in
    from evals.making.review import study_of_review, with_earlier_reviews, write_review
    from orchestration.commands.question_making import REVIEW, named_from

    found = whole_study_of(study)
    where = home_of(found)
    set_name = name or f"{found.study}-asked"
    path = output or found.path.with_name(f"{set_name}{REVIEW}")
    earlier = path.exists() and not force
    if earlier:
        study_of_review(path)  # what is no review file is not replaced
    from warehouse.conversations import Conversations

    every = asked_in(Conversations(where).of(found.study))
    asked = [one for one in every if one.fits(only.value)]
    if not asked:
        what = f"none of its {len(every)} questions is one of those" if every else "nobody has asked anything"
        raise InputError(f"{found.study}: {what}; people ask by `assay chat {study}`")
    file = _file(found, asked, set_name, named_from(found, study, path), where)
    if not file.questions and not earlier:
        raise InputError(f"the study asks all of the {len(asked)} questions already")
    write_review(path, with_earlier_reviews(file, path) if earlier else file, HEADING)
    print(path)
    times = sum(one.asked.times for one in file.questions if one.asked)
    proposed = sum(bool(one.evidence) for one in file.questions)
    say(f"{len(file.questions)} questions, asked {times} times; {proposed} have evidence proposed.")
    say(f"Now read them and set each `review`; then: assay questions review {path}")


def _file(study: Study, asked: list[Asked], set_name: str, named: str, where: Home) -> ReviewFile:
    from assets.engine.stage import Work
    from evals.making.by_model.corpus_pieces import corpus_frame, documents_of
    from evals.making.from_use import questions_of
    from evals.making.question_file import embed_for
    from evals.making.review import ReviewFile
    from evals.pipeline.study_questions import StudyQuestions

    several = len(study.corpus.sources) > 1
    work = Work(where)
    try:
        documents = documents_of(corpus_frame(study, work))
        pages = {one.doc_id: (one.url, one.source if several else None) for one in documents}
        known = StudyQuestions(study, work).texts
        questions = questions_of(asked, known, embed_for(study, work), pages)
    finally:
        work.close()
    languages = [one.language or "en" for one in questions]
    language = max(sorted(set(languages)), key=languages.count, default="en")
    return ReviewFile(question_set=set_name, language=language, study=named, questions=questions)
