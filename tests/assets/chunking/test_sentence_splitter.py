from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assay.assets.chunking.sentence_splitter import sentence_places, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Gemäß Art. 5 Abs. 2 gilt das. Nr. 3 nicht.", ["Gemäß Art. 5 Abs. 2 gilt das.", "Nr. 3 nicht."]),
        ("Das ist Kunst. Art. Mehr nicht.", ["Das ist Kunst.", "Art.", "Mehr nicht."]),
        ("Am 3. Mai 2024 begann es. Danach nichts.", ["Am 3. Mai 2024 begann es.", "Danach nichts."]),
        (
            "Der 4. Spieltag war gut. Es stand 3:2. Dann kam Regen.",
            ["Der 4. Spieltag war gut.", "Es stand 3:2.", "Dann kam Regen."],
        ),
        ("Das war 2019. Danach kam nichts.", ["Das war 2019.", "Danach kam nichts."]),
        ("Sie zahlte 42. Danach ging sie.", ["Sie zahlte 42.", "Danach ging sie."]),
        ("Obst, z. B. Äpfel, d.h. Kernobst. Ende.", ["Obst, z. B. Äpfel, d.h. Kernobst.", "Ende."]),
        (
            "Dr. Meier und Prof. Dr. Weber kamen. Sie gingen.",
            ["Dr. Meier und Prof. Dr. Weber kamen.", "Sie gingen."],
        ),
        ("It cost 1.5 Mio. Euro. That is much.", ["It cost 1.5 Mio. Euro.", "That is much."]),
        (
            "Mr. J. R. Smith of the U.S. Army met e.g. Ms. Lee. They spoke.",
            ["Mr. J. R. Smith of the U.S. Army met e.g. Ms. Lee.", "They spoke."],
        ),
        (
            "See No. 7 and Fig. 2. He said no. Then he left.",
            ["See No. 7 and Fig. 2.", "He said no.", "Then he left."],
        ),
        ("„Das ist gut.“ Er lachte.", ["„Das ist gut.“", "Er lachte."]),
        ("„Hilfe!“ rief er. „Wo?“, fragte sie.", ["„Hilfe!“ rief er.", "„Wo?“, fragte sie."]),
        ('He said: "It is over." "Why?" she asked.', ['He said: "It is over."', '"Why?" she asked.']),
        ("It went on ... and on. Then … Nothing.", ["It went on ... and on.", "Then …", "Nothing."]),
        ("A heading\n\nA text over\ntwo lines. Next.", ["A heading", "A text over two lines.", "Next."]),
        (
            "It shall:\n(a) report;\n(b) pay.\n- or leave",
            ["It shall:", "(a) report;", "(b) pay.", "- or leave"],
        ),
        ("1. Introduction follows. 2. Then this.", ["1. Introduction follows.", "2. Then this."]),
        ("Visit www.example.org today. Really!", ["Visit www.example.org today.", "Really!"]),
        ("Er wohnt in der Hauptstr. 5. Sie auch.", ["Er wohnt in der Hauptstr. 5.", "Sie auch."]),
        ("Sie ging in die Hauptstr. Er nicht.", ["Sie ging in die Hauptstr.", "Er nicht."]),
        ("Die Fa. Meyer GmbH & Co. KG liefert. Gut.", ["Die Fa. Meyer GmbH & Co. KG liefert.", "Gut."]),
        ("She works for Smith & Co. They pay well.", ["She works for Smith & Co.", "They pay well."]),
        ("Dr. med. Weber und das BGBl. I S. 5. Ende.", ["Dr. med. Weber und das BGBl. I S. 5.", "Ende."]),
        ("Urteil Az. 3 U 5/10. Lt. Col. Miller sang.", ["Urteil Az. 3 U 5/10.", "Lt. Col. Miller sang."]),
        ("He lives in the U.S. It is large.", ["He lives in the U.S.", "It is large."]),
        ("She has a Ph.D. The U.S. Army knows.", ["She has a Ph.D.", "The U.S. Army knows."]),
        (
            "We met at 5 p.m. She was late, at 6 p.m. Monday.",
            ["We met at 5 p.m.", "She was late, at 6 p.m. Monday."],
        ),
        ("Vieles, z.B. Die Zeit, i.d.R. Das Blatt.", ["Vieles, z.B. Die Zeit, i.d.R. Das Blatt."]),
        ("", []),
        (" \n … — \n", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two!", ["One.", "Two!"]),
        ("  One.\r\n\r\nTwo\nlines.\r\n", ["One.", "Two\nlines."]),
        (
            "Laut Art. 5 gilt das. Am 1. März „endet!“ es.",
            ["Laut Art. 5 gilt das.", "Am 1. März „endet!“ es."],
        ),
        ("Gut! *** 😀\n\n---\n\nNext.", ["Gut! *** 😀\n\n---", "Next."]),
        ("*** \n\n--- Gut! Ja.", ["*** \n\n--- Gut!", "Ja."]),
        ("…\n\n—", ["…\n\n—"]),
        (" \n", []),
    ],
)
def test_places_are_exact_and_lose_no_sign(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_places(text)] == expected


@given(st.text(st.sampled_from('aB1.!?…:„“"()-* \r\n\u00a0😀')))
def test_only_white_space_lies_between_sentences(text: str) -> None:
    places = [(0, 0), *sentence_places(text), (len(text), len(text))]
    assert not any(text[end:begin].strip() for (_, end), (begin, _) in pairwise(places))
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in places[1:-1])


@pytest.mark.parametrize(
    "part", [".", "x.", "Art. ", "1. ", ".)", "\n", "a. \n", "Der 1. ", "\t", "Ja. ", " \n x \n"]
)
def test_time_grows_with_the_text_and_not_with_its_square(part: str) -> None:
    begin = time.process_time()  # of this process alone: others may keep the machine busy
    sentence_places(part * (500_000 // len(part)))
    assert time.process_time() - begin < 30, (
        "half a megabyte takes a second or less; squared it takes minutes"
    )


@pytest.mark.parametrize(
    "expected",
    [
        ["渡轮中午离开港口。", "它晚上返回！", "“真的？”", "他问。"],
        ["港は3つある。", "どこですか？"],
    ],
)
def test_scripts_without_spaces_end_sentences_without_one(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["هل تعود؟", "نعم.", "تغادر العبارة."],
        ["नाव जाती है।", "वह लौटती है।"],
        ["کیا وہ آتی ہے؟", "ہاں۔", "نہیں۔"],
    ],
)
def test_end_marks_of_other_scripts_end_sentences(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected
