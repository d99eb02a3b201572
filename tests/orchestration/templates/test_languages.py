"""A new study has an embedder and retrievers for the language of its documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.retrieval.bm25 import Bm25
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.templates.languages import language_of
from rag_assay.orchestration.templates.study_files import write_study

TEXTS = {
    "en": "The ferry leaves the harbour at noon and calls at the island before it returns in the evening.",
    "de": "Die Fähre verlässt den Hafen am Mittag und legt an der Insel an, bevor sie am Abend zurückkehrt.",
    "fr": "Le ferry quitte le port à midi et fait escale sur l'île avant de revenir dans la soirée.",
}


def folder_of(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def page(language: str) -> str:
    text = (TEXTS[language] + " ") * 3
    return (
        f"<html><head><style>p {{ color: red }}</style></head><body class='main'><p>{text}</p></body></html>"
    )


@pytest.mark.parametrize(
    ("language", "model", "words"),
    [
        ("en", "all-MiniLM-L6-v2", {}),
        ("de", "multilingual-e5-small", {"language": "german"}),
        ("fr", "multilingual-e5-small", {"tokenizer": "plain", "function_words": "keep"}),
    ],
)
def test_the_embedder_and_the_words_go_by_the_documents(
    tmp_path: Path, language: str, model: str, words: dict[str, str]
) -> None:
    pages = {f"{number}.html": page(language) for number in range(3)}
    folder = folder_of(tmp_path / "docs", pages | {"notes.md": f"# {TEXTS[language]}\n\n{TEXTS[language]}\n"})
    study_path, _ = write_study(str(folder), tmp_path / "study.yaml")
    study = read_study(study_path)
    assert [embedder.model for embedder in study.embedders.values()] == [model]
    expected = Bm25.model_validate({"k": 50, **words})
    assert study.retrievers["bm25"] == expected
    assert study.retrievers["hybrid"].bm25 == expected.at_depth(Bm25().k)


def test_most_documents_decide_and_what_cannot_be_read_does_not(tmp_path: Path) -> None:
    mixed = {"a.txt": TEXTS["de"], "b.txt": TEXTS["de"], "c.txt": TEXTS["en"], "d.pdf": "%PDF", "e.txt": ""}
    assert language_of(folder_of(tmp_path / "mixed", mixed)) == "de"
    assert language_of(folder_of(tmp_path / "pdf", {"d.pdf": "%PDF"})) is None
    assert language_of(folder_of(tmp_path / "empty", {})) is None


def test_of_a_site_nothing_is_known_and_the_other_embedder_is_named(tmp_path: Path) -> None:
    study_path, _ = write_study("https://example.org/blog/", tmp_path / "study.yaml")
    assert list(read_study(study_path).embedders) == ["minilm"]
    assert "for other languages than English: e5: {model: multilingual-e5-small}" in study_path.read_text()
