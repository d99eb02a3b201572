"""Datasets that `save_to_disk` of Hugging Face wrote, as documents and as questions."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from rag_assay.crawlers.readers.table import TableReader
from rag_assay.evals.question_sets.readers import WrittenSet, files_of, read_set
from rag_assay.evals.question_sets.readers.contract import SetFile
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.source import Source

PASSAGES = {"id": ["a", "b"], "body": ["The ferry leaves at noon.", "Tickets are sold on the quay."]}
QUESTIONS = {"question": ["When?", "Where?"], "ground_truth": ["At noon.", "On the quay."]}


def test_a_dataset_is_read_as_documents_without_its_cached_results(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    datasets.Dataset.from_dict(PASSAGES).save_to_disk(folder, num_shards=2)
    (folder / "cache-1.arrow").write_bytes((folder / "data-00000-of-00002.arrow").read_bytes())
    source = Source(reader="table", path=str(folder), columns={"text": "body"})
    pages = list(TableReader().read(source))
    assert [page.url.partition("#")[2] for page in pages] == ["a", "b"]
    assert all(page.reason is None for page in pages), pages
    wrong = list(TableReader().read(Source(reader="table", path=str(folder))))
    assert "no column 'text'; there are id, body" in str(wrong[0])


def test_a_dataset_is_read_as_questions(tmp_path: Path) -> None:
    datasets.Dataset.from_dict(QUESTIONS).save_to_disk(tmp_path / "one")
    splits = datasets.DatasetDict({name: datasets.Dataset.from_dict(QUESTIONS) for name in ("test", "train")})
    splits.save_to_disk(tmp_path / "several")
    for folder in (tmp_path / "one", tmp_path / "several" / "test"):
        written = WrittenSet(SetFile(folder, "set"))
        rows = read_set(written)
        assert [row["question"] for row in rows] == QUESTIONS["question"]
        assert [row["ground_truth"] for row in rows] == QUESTIONS["ground_truth"]
        assert [path.suffix for path in files_of(written)] == [".arrow"]
    with pytest.raises(InputError, match=r"name the folder of one: .*test, .*train"):
        read_set(WrittenSet(SetFile(tmp_path / "several", "set")))
    (tmp_path / "one" / "state.json").write_text("{")
    with pytest.raises(InputError, match="save the dataset again"):
        read_set(WrittenSet(SetFile(tmp_path / "one", "set")))
    (tmp_path / "plain").mkdir()
    with pytest.raises(InputError, match="a file is needed here"):
        read_set(WrittenSet(SetFile(tmp_path / "plain", "set")))
    (tmp_path / "bad.arrow").write_bytes(b"not arrow")
    with pytest.raises(InputError, match="not an Arrow file"):
        read_set(WrittenSet(SetFile(tmp_path / "bad.arrow", "set")))
