"""The demo study's smallest slice, end to end: a real crawl, real MiniLM, LanceDB and DuckDB."""

from __future__ import annotations

import json

import pytest

from rag_assay.evals.reporting.page import json_rows, render_html
from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.study.study import Study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.orchestration.driver import Driver
from rag_assay.warehouse.paths import Home

pytestmark = pytest.mark.models


def slice_of_demo() -> Study:
    """The demo with one site, one chunking, two retrievers and the extractive generator."""
    demo = read_study(BUNDLED / "demo.yaml")
    return demo.model_copy(
        update={
            "corpus": demo.corpus.model_copy(update={"sources": ("posts",)}),
            "chunkings": {"articles": demo.chunkings["articles"]},
            "retrievers": {name: demo.retrievers[name] for name in ("bm25", "hybrid")},
            "generators": {"extractive": demo.generators["extractive"]},
            "restrict": {},
            "judges": {},
            "judge_cards": {},
            "questions": tuple(source for source in demo.questions if "blog" in (source.file or "")),
        }
    )


def test_slice_from_crawl_to_report(assay_home: Home) -> None:
    study = slice_of_demo()
    report = Driver(study, assay_home).run()
    assert report.ok, report
    rows = json.loads(json_rows(stored_result(study, assay_home).board))
    assert {row["retriever"] for row in rows} == {"bm25", "hybrid"}
    by_cell = {row["retriever"]: row for row in rows if row["metric"] == "ndcg@10"}
    assert by_cell["bm25"]["n"] == by_cell["hybrid"]["n"] == 28, "32 questions, of which 4 have no answer"
    by_people = {row["metric"] for row in rows if row["coverage"] != 1.0}
    assert by_people == {"people.points"}, "only ratings are missing"
    assert all(0.5 < row["value"] <= 1.0 for row in by_cell.values()), "twelve posts: most answers are found"
    data = report_data(study, assay_home)
    assert not [note for note in data.notes if "questions of" in note], (
        "all evidence is found in the crawled documents"
    )
    page = render_html(data)
    assert "articles" in page
    assert data.corpus[0].documents == 12, "the post of a single word is dropped, the image is a failed page"
    assert any("too short" in reason for reason in data.corpus[0].dropped)


def test_every_question_set_has_its_mix() -> None:
    from rag_assay.evals.question_sets.question_files import read_yaml
    from rag_assay.evals.study.grid import question_sets

    for question_set in question_sets(read_study(BUNDLED / "demo.yaml")):
        questions = read_yaml(question_set.path)
        assert len(questions) >= 16
        assert {q["type"] for q in questions} == {"normal", "yes_no", "hypothetical", "complex"}
        assert sum(not q["answerable"] for q in questions) >= 3
        assert sum(bool(q["time_from"] or q["time_to"]) for q in questions) >= 3
        assert all(q["ground_truth"] for q in questions)
