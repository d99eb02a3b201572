"""Words of every script: none is lost, each has its place, and languages find what they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from rag_assay.assets.tokenization.stems import LANGUAGES, stemmer
from rag_assay.assets.tokenization.words import plain_tokens, word_places
from rag_assay.evals.retrieval.bm25 import Bm25
from tests.fakes.indexing import build_index, query, searched

WORDS: Mapping[str, tuple[str, list[str]]] = {
    "Chinese": ("第5章:海港门。", ["第", "5", "章", "海港", "港门"]),
    "Japanese": ("港は3つ", ["港は", "3", "つ"]),
    "Korean": ("항구로 간다", ["항구", "구로", "간다"]),
    "Thai": ("ท่าเรือ 12", ["ท่า", "่าเ", "าเร", "เรื", "รือ", "12"]),
    "Hindi": ("हिन्दी में", ["हिन्दी", "में"]),
    "Arabic": ("الميناءُ، 5", ["الميناءُ", "5"]),
    "Greek": ("το λιμάνι", ["το", "λιμάνι"]),
    "Russian": ("В гавани.", ["в", "гавани"]),
    "decomposed": ("Fa\u0308hre ab", ["fa\u0308hre", "ab"]),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_and_their_places(name: str) -> None:
    text, words = WORDS[name]
    assert plain_tokens(text) == words
    assert [text[start:end].casefold() for start, end in word_places(text)] == words


def test_each_language_has_stems() -> None:
    assert all(stemmer(language)("5") == "5" for language in LANGUAGES.values())
    assert stemmer("russian")("гавани") == stemmer("russian")("гавань")


@pytest.mark.parametrize(
    ("language", "texts", "question", "best"),
    [
        ("zh", ["火车晚上离开车站。", "渡轮中午离开港口。", "岛上没有人。"], "渡轮什么时候离开?", 1),
        ("th", ["รถไฟออกจากสถานีตอนเย็น", "ไม่มีใครอยู่บนเกาะ", "เรือข้ามฟากออกจากท่าเรือ"], "เรือข้ามฟากออกเมื่อไหร่", 2),
        (
            "ru",
            ["Поезд уходит вечером.", "На острове никого.", "Из гавани уходят паромы."],
            "паром и гавань",
            2,
        ),
        (
            "es",
            ["El tren sale.", "Los barcos salían temprano.", "Nadie vive allí."],
            "¿Cuándo salió un barco?",
            1,
        ),
        (None, ["The train is late.", "The ferries sail.", "An empty island."], "a ferry", 1),
    ],
)
def test_bm25_reads_words_by_the_language_of_most_chunks(
    tmp_path: Path, language: str | None, texts: list[str], question: str, best: int
) -> None:
    index = build_index(tmp_path, texts, columns={"language": [language, language, None]})
    found = searched(Bm25(), query(question), index)
    assert found.rows[0] == best
    assert Bm25().analyzer(index) == Bm25().analyzer_of(LANGUAGES.get(language or "en"))
