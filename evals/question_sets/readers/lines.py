"""Questions as lines of text, `question=answer`."""

from __future__ import annotations

from rag_assay.evals.question_sets.readers.contract import (
    QuestionRecord,
    Records,
    Row,
    SetFile,
    lines_of_file,
)
from rag_assay.evals.question_sets.readers.records import rows_of


def read_lines(file: SetFile) -> list[Row]:
    return rows_of(_records(file), file)


def _records(file: SetFile) -> Records:
    for number, line in lines_of_file(file.path):
        if not line.strip():
            continue
        question, equals, answer = (part.strip() for part in line.partition("="))
        if not equals:
            yield QuestionRecord(str(number), {}, "expected `question=answer`; there is no `=` in this line")
        elif not question or not answer:
            missing = "question before" if not question else "answer behind"
            yield QuestionRecord(
                str(number), {}, f"expected `question=answer`; there is no {missing} the `=`"
            )
        else:
            yield QuestionRecord(str(number), {"question": question, "ground_truth": answer})
