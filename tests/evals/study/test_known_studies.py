"""A study that was run in a home is known there by its name, wherever its file lies and whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.study.run_studies import find_known, known_path, note
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home
from tests.fakes.tiny import write_study


def test_a_study_that_was_run_is_found_by_its_name(tmp_path: Path) -> None:
    home, path = Home(tmp_path / "home"), write_study(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="there is no study 'tiny'"):
        known_path("tiny", home)
    note(read_study(path), home)
    assert known_path("tiny", home) == path
    assert find_known("tiny", home).study == "tiny"
    assert known_path(str(path), Home(tmp_path / "another")) == path


def test_what_is_wrong_with_its_file_by_now_is_told(tmp_path: Path) -> None:
    home, path = Home(tmp_path / "home"), write_study(tmp_path / "elsewhere")
    note(read_study(path), home)
    path.write_text(path.read_text().replace("size: 16", "size: -16"))
    assert known_path("tiny", home) == path  # for `assay check`, which lists all of it
    with pytest.raises(InputError, match=r"tiny\.yaml:8: chunkings\.t16\.tokens\.size"):
        find_known("tiny", home)
    path.unlink()
    with pytest.raises(InputError, match="there is no study 'tiny'"):
        known_path("tiny", home)
