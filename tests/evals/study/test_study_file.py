"""A study file with mistakes is answered with all of them: file, line, what is wrong, what would be right."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from rag_assay.evals.study.study_file import StudyCollection, read_studies, read_study, study_path
from rag_assay.evals.study.study_names import BUNDLED, study_files
from rag_assay.warehouse.errors import InputError
from tests.fakes.tiny import QUESTIONS, STUDY, write_study


def findings(folder: Path, changes: dict[str, str], then: dict[str, str] | None = None) -> list[str]:
    """Return what is said of a changed study, without the folder before the file's name."""
    path = write_study(folder, changes)
    for old, new in (then or {}).items():
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_study(path)
    return [finding.replace(f"{folder}/", "") for finding in caught.value.findings]


def line_of(text: str, study: str = STUDY) -> int:
    return study[: study.index(text)].count("\n") + 1


def test_the_tiny_study_is_good(tmp_path: Path) -> None:
    study = read_study(write_study(tmp_path))
    assert [cell.key for cell in study.cells()] == [
        "tiny.t16.minilm.bm25.extractive",
        "tiny.t16.minilm.dense.extractive",
    ]


def test_a_whole_number_will_do_for_any_number_and_text_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPTH", "5")
    study = read_study(write_study(tmp_path, {"{k: 5}": "{k: '${DEPTH}', k1: 2, epsilon: 1e-3}"}))
    bm25 = study.retrievers["bm25"]
    assert (bm25.k, bm25.k1, bm25.epsilon) == (5, 2.0, 0.001), "YAML and `${NAME}` give 1e-3 and 5 as text"
    assert isinstance(bm25.k1, float), "2 and 2.0 are one recipe, with one identity"


@pytest.mark.parametrize("path", ['"a\\0b"', "~no-such-user/x", "a" * 5000, "/" + "a" * 5000])
def test_what_can_be_no_path_is_told_with_its_line(tmp_path: Path, path: str) -> None:
    found = findings(tmp_path, {"path: docs": f"path: {path}"})
    assert len(found) == 1
    assert found[0].startswith(f"tiny.yaml:{line_of('path: docs')}: ")
    assert "cannot be used as a path: " in found[0]
    found = findings(tmp_path, {"file: ferry.questions.yaml": f"file: {path}"})
    assert len(found) == 1
    assert "cannot be used as a path: " in found[0]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        {
            "seed: 7": "seed: seven",
            "path: docs}": "path: nowhere}",
            "sources: [docs]": "sources: [dcos]",
            "overlap: 4": "overlap: 99",
            "all-MiniLM-L6-v2": "MiniLM",
            "{k: 5}": "{k: 0}",
            "ferry.questions.yaml": "lost.questions.yaml",
            "ndcg@10": "ndgc@10",
        },
    )
    assert [finding.split(": ")[0] for finding in found] == [
        f"tiny.yaml:{line}" for line in (3, 5, 6, 8, 10, 12, 17, 18)
    ]


def test_a_finding_is_told_once(tmp_path: Path) -> None:
    assert len(findings(tmp_path, {"sources: [docs]": "sources: [dcos]"})) == 1


def test_answer_metrics_need_a_generator(tmp_path: Path) -> None:
    generators = "generators:\n  extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
    (found,) = findings(tmp_path, {generators: ""})
    assert found == "tiny.yaml:16: abstention measures answers, but the study has no `generators`"


def test_missing_files_are_told_with_their_line(tmp_path: Path) -> None:
    found = findings(tmp_path, {"path: docs": "path: papers", "- file: ferry": "- file: fery"})
    assert found == [
        "tiny.yaml:5: there is no papers; relative paths start from the folder of this file",
        "tiny.yaml:17: there is no fery.questions.yaml; relative paths start from the folder of this file",
    ]


def test_an_unset_environment_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FERRY_DOCS", raising=False)
    (found,) = findings(tmp_path, {"path: docs": 'path: "${FERRY_DOCS}"'})
    assert found.startswith("tiny.yaml:5: the environment variable FERRY_DOCS is not set")
    monkeypatch.setenv("FERRY_DOCS", str(tmp_path / "docs"))
    assert read_study(tmp_path / "tiny.yaml").sources["docs"].path == str(tmp_path / "docs")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("study: [tiny", "bad.yaml:1: not valid YAML"),
        ("study: tiny\nseed: 1\nseed: 2\n", "bad.yaml:3: the key `seed` is here a second time"),
        ("", "bad.yaml:1: a study is a mapping that begins with `study: NAME`"),
        ("- a\n- b\n", "bad.yaml:1: a study is a mapping"),
        ("study: !!python/object/apply:os.system ['true']\n", "bad.yaml"),
    ],
)
def test_what_is_no_study_at_all(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_study(path)
    assert told in str(caught.value)


def test_two_question_files_of_one_name_clash(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "ferry.questions.yaml").write_text(QUESTIONS)
    second = "- file: ferry.questions.yaml\n  - file: more/ferry.questions.yaml"
    (found,) = findings(tmp_path, {"- file: ferry.questions.yaml": second})
    told = "tiny.yaml:18: a second question set with the name `ferry` (item 1); "
    assert found == told + "rename the file, or give the set a `name`"


def test_a_question_file_whose_name_cannot_be_a_key(tmp_path: Path) -> None:
    (tmp_path / "a|b.questions.yaml").write_text(QUESTIONS)
    (found,) = findings(tmp_path, {"ferry.questions.yaml": "a|b.questions.yaml"})
    assert found.startswith("tiny.yaml:17: the question set is named by its file, and `a|b` will not do")


# --- several studies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("docs: {reader: folder", "docs: {language: de, reader: folder", "sources.docs"),
        ("sources: [docs]", "sources: [docs, more]", "corpus.ferries"),
        ("size: 16", "size: 32", "corpus.ferries.chunkings.t16"),
        ("L6-v2}", "L6-v2, max_tokens: 512}", "corpus.ferries.embedders.minilm"),
    ],
)
def test_one_name_means_one_thing_in_all_studies(tmp_path: Path, old: str, new: str, part: str) -> None:
    first = read_study(write_study(tmp_path))
    more = {"  docs: {reader": "  more: {limits: {pages: 9}, reader: folder, path: docs}\n  docs: {reader"}
    second = read_study(
        write_study(tmp_path, {"study: tiny": "study: other", **more, old: new}, name="other")
    )
    with pytest.raises(InputError) as caught:
        StudyCollection([first, second])
    (found,) = caught.value.findings
    assert f"other.yaml: {part} means something else in {tmp_path}/tiny.yaml" in found
    assert "rename one of them" in found


@pytest.mark.parametrize(
    ("old", "new"), [("{bm25: {k: 5}}", "{bm25: {k: 6}}"), ("passages: 2", "passages: 3")]
)
def test_retrievers_and_generators_are_their_studys_own(tmp_path: Path, old: str, new: str) -> None:
    first = read_study(write_study(tmp_path))
    second = read_study(write_study(tmp_path, {"study: tiny": "study: other", old: new}, name="other"))
    assert set(StudyCollection([first, second]).studies) == {"tiny", "other"}


def test_one_study_name_in_two_files_is_refused(tmp_path: Path) -> None:
    first, second = (read_study(write_study(tmp_path, name=name)) for name in ("tiny", "again"))
    with pytest.raises(InputError, match=r"study\.tiny means something else"):
        StudyCollection([first, second])


def test_the_same_relative_path_from_two_folders_is_not_the_same_source(tmp_path: Path) -> None:
    first = read_study(write_study(tmp_path / "a"))
    second = read_study(write_study(tmp_path / "b", {"study: tiny": "study: other"}))
    with pytest.raises(InputError) as caught:
        StudyCollection([first, second])
    assert [finding.split(" means")[0].split(": ")[1] for finding in caught.value.findings] == [
        "sources.docs",
        "questions.ferries.ferry",
    ]


def test_studies_that_agree_live_together(tmp_path: Path) -> None:
    first = read_study(write_study(tmp_path))
    second = read_study(write_study(tmp_path, {"study: tiny": "study: other"}, name="other"))
    assert list(StudyCollection([first, second]).studies) == ["tiny", "other"]


def test_a_broken_file_is_left_out_of_the_book_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_study(tmp_path)
    write_study(tmp_path, {"study: tiny": "study: other", "seed: 7": "sed: 7"}, name="other")
    (tmp_path / "torn.yaml").write_text("study: [")
    with caplog.at_level(logging.WARNING):
        book = read_studies(study_files(tmp_path))
    assert list(book.studies) == ["tiny"]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "other.yaml:3: unknown key `sed`" in told[0]
    assert "torn.yaml:1: not valid YAML" in told[1]


def test_a_study_is_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_study(tmp_path, name="file-of-another-name")
    monkeypatch.setenv("ASSAY_STUDIES", str(tmp_path))
    assert study_path("tiny") == path
    assert study_path("file-of-another-name") == path
    assert study_path(str(path)) == path
    with pytest.raises(InputError, match="there is no study 'tyni'"):
        study_path("tyni")
    with pytest.raises(InputError, match="there is no such file"):
        read_study(study_path(str(tmp_path / "nix.yaml")))


def test_the_bundled_studies_are_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d1", "title": "", "text": "A text."}) + "\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "A question?"}) + "\n")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    monkeypatch.setenv("ASSAY_BEIR", str(tmp_path))
    (tmp_path / "exam.txt").write_text("When does it apply?=From 2021 on.\n")
    monkeypatch.setenv("ASSAY_EURLEX", str(tmp_path))
    monkeypatch.setenv("ASSAY_QUESTIONS", str(tmp_path / "exam.txt"))
    monkeypatch.delenv("ASSAY_STUDIES", raising=False)
    there = {path.stem for path in BUNDLED.glob("*.yaml") if not path.name.endswith(".questions.yaml")}
    assert there == set(read_studies(study_files()).studies) >= {"demo", "beir"}


@pytest.mark.parametrize(
    ("file", "told"),
    [("/dev/zero", "not a regular file"), ("pipe.yaml", "not a regular file"), ("docs", "folder")],
)
def test_a_question_file_that_is_none_is_told_with_its_line(tmp_path: Path, file: str, told: str) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    found = findings(tmp_path, {"- file: ferry.questions.yaml": f"- file: {file}"})
    line = line_of("- file:")
    assert any(one.startswith(f"tiny.yaml:{line}: ") and told in one for one in found), found


def test_a_study_that_waits_for_its_variable_is_left_out_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_NOWHERE", raising=False)
    (tmp_path / "waits.yaml").write_text(
        "study: waits\nsources: {a: {reader: folder, path: '${ASSAY_NOWHERE}'}}\n"
    )
    with caplog.at_level(logging.INFO):
        assert not read_studies(study_files(tmp_path)).studies
        assert not caplog.records
        (tmp_path / "wrong.yaml").write_text("study: '${ASSAY_NOWHERE}'\nstudy: twice\n")
        assert not read_studies(study_files(tmp_path)).studies
    (record,) = caplog.records
    assert "wrong.yaml" in record.getMessage()
