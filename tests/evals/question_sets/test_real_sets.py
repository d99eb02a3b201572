"""Question sets of other people, on their documents; skipped where these are not there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from rag_assay.evals.question_sets.evidence_resolution import Resolver
from rag_assay.evals.question_sets.readers import WrittenSet, read_set
from rag_assay.evals.question_sets.readers.contract import SetFile

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
XQUAD = DATA / "xquad" / "xquad.en.json.gz"
ACTS, EXAM = DATA / "eurlex-energy", DATA / "eurlex-questions" / "text_questions_reduced.txt"


@pytest.mark.skipif(not XQUAD.is_file(), reason="shared/data/xquad is not there")
@pytest.mark.parametrize("whole", [False, True])
def test_every_answer_of_xquad_is_found_at_its_place(*, whole: bool) -> None:
    """In paragraphs, and in articles made of them: the context tells which place of an answer is meant."""
    articles = json.loads(gzip.decompress(XQUAD.read_bytes()))["data"]
    contexts = [[paragraph["context"] for paragraph in article["paragraphs"]] for article in articles]
    texts = ["\n\n".join(one) for one in contexts] if whole else [text for one in contexts for text in one]
    documents = [
        {"doc_id": str(n), "source": "s", "url": str(n), "text": text} for n, text in enumerate(texts)
    ]
    rows = read_set(WrittenSet(SetFile(XQUAD, "xquad", "en")))[:: 12 if whole else 1]
    assert whole or len(rows) == 1190
    resolver = Resolver(documents, rows)
    for row in rows:
        (written,), (found,) = row["evidence"], resolver.resolve(row)["evidence"]
        text = texts[int(found["doc_id"])]
        assert text[found["start"] : found["end"]] == written["quote"]
        assert found["start"] - text.index(written["context"]) == written["start"]
        assert found["similarity"] == 1.0


@pytest.mark.skipif(not (ACTS.is_dir() and EXAM.is_file()), reason="shared/data/eurlex-* are not there")
def test_ground_truths_of_an_exam_are_found_in_the_acts_that_they_are_of() -> None:
    from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex

    documents = []
    for line in (ACTS / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        body = gzip.decompress((ACTS / entry["file"]).read_bytes())
        text = clean_eurlex(body, "text/html; charset=utf-8", entry["url"]).text
        documents.append({"doc_id": entry["file"], "source": "s", "url": entry["file"], "text": text})
    rows = read_set(WrittenSet(SetFile(EXAM, "exam", "en"), evidence="ground_truth"))
    resolver = Resolver(documents, rows)
    found = [row for row in map(resolver.resolve, rows) if row["evidence"]]
    assert (len(documents), len(rows), len(found)) == (52, 40, 10)
    # By hand: nine are of the directive on energy efficiency, one of which stands in its predecessor too; the
    # tenth is the date of an act, in a footnote.
    of_directive = [any("32023L1791" in item["url"] for item in row["evidence"]) for row in found]
    assert of_directive.count(False) == 1
    (dated,) = (row for row, is_of in zip(found, of_directive, strict=True) if not is_of)
    assert "21.12.2018" in dated["evidence"][0]["quote"]
    assert sorted(len(row["evidence"]) for row in found) == [1] * 9 + [2]
    fit = next(row for row in found if row["question"] == "What is the purpose of the Fit for 55 package?")
    assert (
        "The purpose of the Fit for 55 package is to safeguard and create jobs" in fit["evidence"][0]["quote"]
    )
