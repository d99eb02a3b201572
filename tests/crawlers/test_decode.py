"""Which charset a page is read with."""

import pytest

from rag_assay.warehouse.pages import decode

GERMAN = "Größere Pläne für die neue Straße in Köln, sagt „der Präsident“. " * 4
POLISH = "Zażółć gęślą jaźń, powiedział prezes klubu sportowego w Łodzi na konferencji. " * 6
RUSSIAN = "Спортивный клуб объявил о новом тренере, который начнёт работу в понедельник. " * 6


@pytest.mark.parametrize(
    ("text", "bytes_in", "content_type", "codec"),
    [
        (GERMAN, "utf-8", "text/html; charset=utf-8", "utf-8"),
        (GERMAN, "utf-8", "text/html", "utf-8"),
        (GERMAN, "utf-8", None, "utf-8"),
        (GERMAN, "cp1252", "text/html; charset=ISO-8859-1", "cp1252"),  # as browsers read that label
        (GERMAN, "cp1252", "text/html; charset=utf-8", "cp1252"),  # mislabelled
        (GERMAN, "utf-8", "text/html; charset=iso-8859-1", "utf-8"),  # mislabelled the other way
        (GERMAN, "cp1252", "text/html; charset=no-such", "cp1252"),
        (GERMAN, "cp1252", "text/html; charset=rot13", "cp1252"),
        (GERMAN, "utf-16", "text/html", "utf-16"),
        (GERMAN, "utf-8-sig", "text/html; charset=iso-8859-1", "utf-8-sig"),
        (POLISH, "cp1250", "text/html; charset=utf-8", "cp1250"),
        (POLISH, "iso8859-2", "text/html; charset=iso-8859-2", "iso8859-2"),
        (RUSSIAN, "cp1251", "text/html", "cp1251"),
        (RUSSIAN, "koi8-r", 'text/html; charset="koi8-r"', "koi8-r"),
        ("plain", "ascii", "text/html; charset=us-ascii", "cp1252"),
    ],
)
def test_charsets(text, bytes_in, content_type, codec):
    assert decode(text.encode(bytes_in), content_type) == (text, codec)


@pytest.mark.parametrize(
    "declaration",
    [
        '<meta charset="iso-8859-2">',
        "<meta http-equiv='Content-Type' content='text/html; charset=iso-8859-2'>",
        '<?xml version="1.0" encoding="iso-8859-2"?>',
    ],
)
def test_the_page_says_it_itself(declaration):
    assert decode((declaration + POLISH).encode("iso8859-2"), "text/html") == (
        declaration + POLISH,
        "iso8859-2",
    )


def test_old_names_and_impossible_ones():
    old = '<meta http-equiv="Content-Type" content="text/html; charset=UNICODE-1-1-UTF-8">é'
    assert decode(old.encode())[1] == "utf-8"
    assert decode(b'<meta charset="utf-16">abc')[1] == "utf-8"  # it was found by single bytes


def test_a_few_broken_bytes_leave_the_rest_utf_8():
    text, codec = decode(GERMAN.encode() + b"\xff" + GERMAN.encode())
    assert (codec, text.count("\ufffd")) == ("utf-8", 1)


def test_anything_is_decoded():
    for body in (b"", bytes(range(256)), b"\xff" * 50, b"\0" * 9):
        assert isinstance(decode(body, "text/html; charset=utf-8")[0], str)
