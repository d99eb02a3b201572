"""The studies that come with the project: they check, they live together, and their quotes are real."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rag_assay.evals.question_sets.alignment import find_quote
from rag_assay.evals.study.grid import read_questions_of
from rag_assay.evals.study.study_file import read_studies, read_study
from rag_assay.evals.study.study_names import BUNDLED, study_files

SHARED = Path(__file__).parents[4] / "shared" / "data" / "eurlex-energy" / "html"
ELSEWHERE = ("beir", "eurlex_questions")  # their data lies where a variable says
STUDIES = sorted(path for path in BUNDLED.glob("*.yaml") if not path.stem.startswith(ELSEWHERE))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_study_and_its_questions_check(path: Path) -> None:
    study = read_study(path)
    assert study.description
    assert len(read_questions_of(study)) >= 6


def test_names_mean_the_same_in_all_of_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    variables = ("ASSAY_BEIR", "ASSAY_EURLEX", "ASSAY_QUESTIONS")
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("ASSAY_STUDIES", raising=False)
    assert set(read_studies(study_files()).studies) == {"demo", "eurlex_energy", "sportnews", "blog"}
    messages = [record.message for record in caplog.records]
    assert [one for one in messages if not any(variable in one for variable in variables)] == []


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the acts in ../shared/data/eurlex-energy")
def test_quotes_stand_in_the_real_acts() -> None:
    from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex

    texts: dict[str, str] = {}
    for question in read_questions_of(read_study(BUNDLED / "eurlex_energy.yaml")):
        for evidence in question["evidence"]:
            celex = evidence["url"].rpartition(":")[2]
            if celex not in texts:
                (path,) = SHARED.glob(f"{celex}.oj.*")
                body = gzip.decompress(path.read_bytes())
                texts[celex] = clean_eurlex(body, "text/html; charset=utf-8", evidence["url"]).text
            assert find_quote(texts[celex], evidence["quote"]), evidence["quote"]
