"""BEIR sets by name: found in a folder, or downloaded, checked, and unpacked into its own folder alone."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assay.orchestration.corpora import beir_sets
from rag_assay.orchestration.corpora.beir_sets import Sum, beir_folder
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.paths import Home

FILES = {
    "scifact/corpus.jsonl": '{"_id": "1", "text": "Rays are fish."}\n',
    "scifact/qrels/test.tsv": "q\t1\t1\n",
}


def tell(_address: str, _done: int, _of: int) -> None: ...


def published(files: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Publish an archive of files as the set `scifact`; return the address of its site."""
    with zipfile.ZipFile(folder / "scifact.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    digest = hashlib.sha256((folder / "scifact.zip").read_bytes()).hexdigest()
    monkeypatch.setitem(beir_sets.SETS, "scifact", Sum("sha256", digest))
    monkeypatch.delenv("ASSAY_BEIR", raising=False)
    return folder.as_uri()


def test_a_set_is_downloaded_once_and_found_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    site = published(FILES, tmp_path, monkeypatch)
    kept = beir_folder("scifact", home, tell, site)
    assert kept == home.root / "beir" / "scifact"
    (tmp_path / "scifact.zip").unlink()
    assert beir_folder("scifact", home, tell, site) == kept
    assert beir_folder("nonsense", home, tell, site) is None
    for said in (kept, kept.parent):
        monkeypatch.setenv("ASSAY_BEIR", str(said))
        assert beir_folder("scifact", Home(tmp_path / "other"), tell, "file:///nowhere") == kept
    assert [one.name for one in kept.parent.iterdir()] == ["scifact"]


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({**FILES, "scifact/../../out.txt": "x"}, "which is not part of the set"),
        ({**FILES, "/out.txt": "x"}, "which is not part of the set"),
        ({**FILES, "other/out.txt": "x"}, "which is not part of the set"),
        ({"scifact/readme.txt": "x"}, "holds no corpus.jsonl"),
    ],
)
def test_an_archive_writes_nowhere_else(
    files: dict[str, str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    with pytest.raises(AssayError, match=error):
        beir_folder("scifact", home, tell, published(files, tmp_path, monkeypatch))
    assert not list(tmp_path.rglob("out.txt"))
    assert not list((home.root / "beir").iterdir())


def test_what_was_not_published_or_cannot_be_had_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    site = published(FILES, tmp_path, monkeypatch)
    with pytest.raises(AssayError, match="has no internet"):
        beir_folder("scifact", home, tell, "file:///nowhere")
    monkeypatch.setattr(beir_sets, "MOST", 10)
    with pytest.raises(AssayError, match="more than 10 bytes"):
        beir_folder("scifact", home, tell, site)
    monkeypatch.undo()
    monkeypatch.delenv("ASSAY_BEIR", raising=False)
    with pytest.raises(AssayError, match="is not what was published"):
        beir_folder("scifact", home, tell, site)
    assert not list((home.root / "beir").iterdir())
