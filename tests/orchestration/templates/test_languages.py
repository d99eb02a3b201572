"""A new study has an embedder and retrievers for the language of its documents."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from rag_assay.assets.cleaning.folder_language import language_of
from rag_assay.assets.embedding.embedder import EmbedderRecipe
from rag_assay.evals.study.study_check import foreign_documents
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.templates.study_files import write_study
from rag_assay.orchestration.templates.trials import trial_of
from rag_assay.warehouse.paths import Home
from tests.fakes.commands import assay

XQUAD = Path(__file__).resolve().parents[4] / "shared" / "data" / "xquad"
ENGLISH_ONLY = [
    "was trained on English alone",
    "`language: english` fits few of the documents",
    "sizes count tokens of all-MiniLM-L6-v2",
]
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


TEXTS |= {
    "es": "El barco sale del puerto al mediodía y hace escala en la isla antes de regresar por la noche.",
    "el": "Το πλοίο αναχωρεί από το λιμάνι το μεσημέρι και σταματά στο νησί πριν επιστρέψει το βράδυ.",
    "ru": "Паром отходит из гавани в полдень и заходит на остров, прежде чем вернуться вечером.",
    "ar": "تغادر العبارة الميناء عند الظهر وتتوقف في الجزيرة قبل أن تعود في المساء.",
    "th": "เรือข้ามฟากออกจากท่าเรือตอนเที่ยงและแวะที่เกาะก่อนจะกลับในตอนเย็น",
    "zh": "渡轮中午离开港口,在岛上停靠,晚上返回。",
    "ja": "フェリーは正午に港を出て、夕方に戻る前に島に立ち寄ります。",
    "ko": "페리는 정오에 항구를 떠나 저녁에 돌아오기 전에 섬에 들릅니다.",
    "vi": "Phà rời cảng vào buổi trưa và ghé đảo trước khi quay trở lại vào buổi tối.",
    "ro": "Feribotul pleacă din port la prânz și face escală pe insulă înainte de a se întoarce seara.",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_embedder_goes_by_the_documents(tmp_path: Path, language: str) -> None:
    pages = {f"{number}.html": page(language) for number in range(3)}
    folder = folder_of(tmp_path / "docs", pages | {"notes.md": f"# {TEXTS[language]}\n\n{TEXTS[language]}\n"})
    study_path, _ = write_study(str(folder), tmp_path / "study.yaml")
    study = read_study(study_path)
    model = "all-MiniLM-L6-v2" if language == "en" else "multilingual-e5-small"
    assert [embedder.model for embedder in study.embedders.values()] == [model]
    budget = 750 if language in {"zh", "ja", "ko"} else 2000
    assert study.metrics[0] == f"evidence_coverage@{budget}tokens"
    assert study.generators["extractive"].context_tokens == budget
    assert ("semantic_similarity" in study.metrics) == (language == "en")
    assert {chunking.tokenizer for chunking in study.chunkings.values()} == {model}, "windows of its tokens"
    assert not list(foreign_documents(study, Home(tmp_path / "var"))), "`check` warns of none of its choices"
    english = study.model_copy(update={"embedders": {"m": EmbedderRecipe(model="all-MiniLM-L6-v2")}})
    assert len(list(foreign_documents(english, Home(tmp_path / "var")))) == (language != "en")
    trial = read_study(trial_of(str(folder), Home(tmp_path / "tried")).study)
    assert {one.tokenizer for one in trial.chunkings.values()} == {model}
    assert trial.metrics[0] == study.metrics[0]
    assert trial.generators["extractive"].context_tokens == budget // 2
    assert [one.model for one in trial.embedders.values()] == [model]


@pytest.mark.skipif(not XQUAD.is_dir(), reason="shared/data/xquad is not there")
@pytest.mark.parametrize("language", ["ar", "el", "en", "es", "ro", "ru", "th", "vi", "zh"])
def test_init_and_check_choose_by_paragraphs_of_nine_languages(tmp_path: Path, language: str) -> None:
    questions = XQUAD / f"xquad.{language}.json.gz"
    articles = json.loads(gzip.decompress(questions.read_bytes()))["data"]
    texts = [paragraph["context"] for article in articles for paragraph in article["paragraphs"]]
    folder_of(tmp_path / "docs", {f"{number}.txt": text for number, text in enumerate(texts)})
    study = tmp_path / "study.yaml"
    done = assay("init", "docs", "-o", "study.yaml", "--questions", "template", folder=tmp_path)
    assert done.returncode == 0, done.stderr

    def warnings(*edits: tuple[str, str]) -> list[str]:
        text = study.read_text()
        for old, new in (("file: study.questions.yaml", f"file: {questions}"), *edits):
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (tmp_path / "asked.yaml").write_text(text)
        found = assay("check", "asked.yaml", folder=tmp_path, ASSAY_HOME=str(tmp_path / "var"))
        assert found.returncode == 0, found.stderr
        return [one for one in ENGLISH_ONLY if one in found.stdout + found.stderr]

    assert warnings() == []
    embedder = next(line for line in study.read_text().split("\n") if re.match("  (e5|minilm): ", line))
    minilm = (embedder, "  minilm: {model: all-MiniLM-L6-v2, max_tokens: 512}")
    stems = ("{bm25: {k: 50}}", "{bm25: {k: 50, language: english}}")
    sizes = (", tokenizer: multilingual-e5-small}\n  tokens-256", "}\n  tokens-256")
    edits = (minilm, stems) if language == "en" else (minilm, stems, sizes)
    assert warnings(*edits) == (ENGLISH_ONLY if language != "en" else [])


@pytest.mark.parametrize(
    ("language", "metrics", "warned"),
    [
        ("zh", ("evidence_coverage@2000tokens", "recall@1501tokens", "ndcg@10"), [0, 1]),
        ("zh", ("evidence_coverage@750tokens", "recall@1500tokens", "evidence_coverage@5"), []),
        ("th", ("evidence_coverage@2000tokens", "chrf"), []),
        ("th", ("chrf", "semantic_similarity"), [1]),
        ("ko", ("semantic_similarity", "evidence_coverage@9000tokens"), [1, 0]),
        ("en", ("evidence_coverage@9000tokens", "semantic_similarity"), []),
    ],
)
def test_metrics_that_say_little_in_a_language_are_named(
    tmp_path: Path, language: str, metrics: tuple[str, ...], warned: list[int]
) -> None:
    folder = folder_of(tmp_path / "docs", {f"{number}.html": page(language) for number in range(3)})
    written, _ = write_study(str(folder), tmp_path / "study.yaml")
    study = read_study(written).model_copy(update={"metrics": metrics})
    found = list(foreign_documents(study, Home(tmp_path / "var")))
    assert [one.place for one in found] == [("metrics", number) for number in warned]


def test_most_documents_decide_and_what_cannot_be_read_does_not(tmp_path: Path) -> None:
    mixed = {"a.txt": TEXTS["de"], "b.txt": TEXTS["de"], "c.txt": TEXTS["en"], "d.pdf": "%PDF", "e.txt": ""}
    assert language_of(folder_of(tmp_path / "mixed", mixed)) == "de"
    assert language_of(folder_of(tmp_path / "pdf", {"d.pdf": "%PDF"})) is None
    assert language_of(folder_of(tmp_path / "empty", {})) is None


def test_of_a_site_nothing_is_known_and_the_other_embedder_is_named(tmp_path: Path) -> None:
    study_path, _ = write_study("https://example.org/blog/", tmp_path / "study.yaml")
    assert list(read_study(study_path).embedders) == ["minilm"]
    assert "for other languages than English: e5: {model: multilingual-e5-small}" in study_path.read_text()
