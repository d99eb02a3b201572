"""PDF files: reading order, headings, pages, running headers and footers, broken words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pypdfium2 as pdfium
import pytest

from rag_assay.assets.chunking.document_chunks import facts_of
from rag_assay.assets.cleaning.draft import DocumentDraft, UnusablePage
from rag_assay.assets.cleaning.pdf import clean_pdf, glyphs
from tests.assets.cleaning.pdf_writer import BOLD, Sheet, pdf

HARBOUR = (
    "The harbour office opens at seven in the morning and closes at ten at night, every day of the week. A "
    "mooring costs twelve pounds a night in summer and eight in winter, water and electricity included."
)
PILOTS = (
    "Pilots report by radio before they pass the outer buoy, by day and by night, whatever the weather is. "
    "The pilot boat takes them off again behind the second lock, unless the sea there is too rough for it."
)
FERRY = (
    "The ferry sails from the northern quay each full hour, and each half hour on market days. Tickets are "
    "sold on board only; children below six travel without one, and bicycles for the price of a child."
)
TIDES = (
    "High water is shown by two black balls on the signal mast, low water by one, and a flag tells which of "
    "both comes next. The lock keeper writes the times of the day on a board beside the gate."
)


STORY = (
    "The harbour office opens at seven in the morning. A mooring costs twelve pounds a night in summer, and "
    "less in winter."
)


def sections(draft: DocumentDraft) -> list[tuple[int, str]]:
    for one in draft.sections:
        assert draft.text[one["start"] : one["end"]].startswith(one["heading"])
    return [(one["level"], one["heading"]) for one in draft.sections]


def below(draft: DocumentDraft, heading: str) -> str:
    one = next(one for one in draft.sections if one["heading"] == heading)
    return draft.text[one["start"] : one["end"]]


def path_of(draft: DocumentDraft, quote: str) -> list[str]:
    at = draft.text.index(quote)
    return [one["heading"] for one in draft.sections if one["start"] <= at < one["end"]]


# ------------------------------------------------------------------------------------------- reading order


def two_columns(*, by_line: bool) -> Sheet:
    """A page with a title across two columns, written column by column, or line by line across both."""
    sheet = Sheet()
    sheet.put(60, 780, "Of harbours, pilots and the tide in the northern bay", 18, BOLD)
    left, right = Sheet(), Sheet()
    left.flow(60, 740, HARBOUR, 46)
    left.flow(60, 640, PILOTS, 46)
    right.flow(310, 740, FERRY, 46)
    right.flow(310, 640, TIDES, 46)
    if by_line:
        for pair in zip(left.marks, right.marks, strict=False):
            sheet.marks += pair
        shorter = min(len(left.marks), len(right.marks))
        sheet.marks += left.marks[shorter:] + right.marks[shorter:]
    else:
        sheet.marks += left.marks + right.marks
    return sheet


@pytest.mark.parametrize("by_line", [False, True])
def test_two_columns_are_read_one_after_the_other(by_line: bool) -> None:
    draft = clean_pdf(pdf(two_columns(by_line=by_line)))
    title = "Of harbours, pilots and the tide in the northern bay"
    assert draft.text == "\n\n".join([title, HARBOUR, PILOTS, FERRY, TIDES])
    assert draft.title == title


def test_columns_below_text_across_the_page_and_text_across_it_below_them() -> None:
    sheet = Sheet()
    y = sheet.flow(60, 780, HARBOUR, 100)
    sheet.flow(60, y - 20, PILOTS, 46)
    y = sheet.flow(310, y - 20, FERRY, 46)
    sheet.flow(60, y - 40, TIDES, 100)
    assert clean_pdf(pdf(sheet)).text == "\n\n".join([HARBOUR, PILOTS, FERRY, TIDES])


def test_three_columns() -> None:
    sheet = Sheet()
    for x, text in ((50, HARBOUR), (225, PILOTS), (400, FERRY)):
        sheet.flow(x, 780, text, 28)
    assert clean_pdf(pdf(sheet)).text == "\n\n".join([HARBOUR, PILOTS, FERRY])


def test_a_paragraph_goes_on_in_the_next_column_and_on_the_next_page() -> None:
    whole = f"{HARBOUR} {PILOTS} {FERRY} {TIDES}"
    words = whole.split()
    third = len(words) // 3
    parts = [" ".join(words[at : at + third]) for at in (0, third, 2 * third)]
    parts[2] = " ".join(words[2 * third :])
    first, second = Sheet(), Sheet()
    first.flow(60, 780, parts[0], 46)
    first.flow(310, 780, parts[1], 46)
    second.flow(60, 780, parts[2], 46)
    draft = clean_pdf(pdf(first, second))
    assert draft.text == whole
    starts = draft.metadata["page_starts"]
    assert draft.text[starts[1] :] == parts[2]


def test_a_table_is_read_row_by_row() -> None:
    sheet = Sheet()
    y = sheet.flow(60, 780, HARBOUR, 100)
    rows = [("Rowing boat", "4.00", "2.50"), ("Yacht", "12.00", "8.00"), ("Barge", "30.00", "22.00")] * 3
    for kind, summer, winter in rows:
        y -= 14
        for x, cell in ((60, kind), (260, summer), (420, winter)):
            sheet.put(x, y, cell)
    assert "Yacht 12.00 8.00" in clean_pdf(pdf(sheet)).text


def put_lines(sheet: Sheet, x: float, y: float, lines: Sequence[str], size: float = 10) -> float:
    for line in lines:
        sheet.put(x, y, line, size)
        y -= 1.2 * size
    return y


def narrow_page() -> tuple[Sheet, list[str]]:
    """A small page with two narrow columns of text, 26 letters wide."""
    sheet = Sheet(300, 500)
    sheet.flow(30, 470, HARBOUR, 28, 8)
    sheet.flow(160, 470, PILOTS, 28, 8)
    return sheet, [HARBOUR, PILOTS]


def test_short_endnotes_are_read_column_by_column() -> None:
    sheet, text = narrow_page()
    sheet.put(30, 360, "Notes to the chapter about the harbour and its ferries", 9, BOLD)
    notes = [
        f"{number}. {source}"
        for number, source in enumerate(["Ibid., p. 7.", "Loc. cit.", "Act, s. 3."] * 4, 1)
    ]
    put_lines(sheet, 30, 345, notes[:7], 6)
    put_lines(sheet, 160, 345, notes[7:], 6)
    found = clean_pdf(pdf(sheet)).text
    assert found == "\n\n".join([*text, "Notes to the chapter about the harbour and its ferries", *notes])


def test_endnotes_may_stand_in_more_columns_than_the_text_and_in_fewer() -> None:
    notes = [f"{number} {text}" for number, text in enumerate((TIDES, FERRY, STORY), 1)]
    more = Sheet()
    more.flow(60, 780, HARBOUR, 46)
    more.flow(310, 780, PILOTS, 46)
    for x, note in zip((60, 225, 390), notes, strict=True):
        more.flow(x, 680, note, 40, 7)
    assert clean_pdf(pdf(more)).text.split("\n\n")[-3:] == notes
    fewer = Sheet()
    for x, text in ((60, HARBOUR), (225, PILOTS), (390, FERRY)):
        fewer.flow(x, 780, text, 30, 9)
    fewer.flow(60, 640, notes[0], 62, 7)
    fewer.flow(310, 640, notes[1], 62, 7)
    assert clean_pdf(pdf(fewer)).text.split("\n\n")[-2:] == notes[:2]


def test_footnotes_belong_to_their_column() -> None:
    sheet, (left, right) = narrow_page()
    sheet.flow(30, 350, "1 Fees of the harbour office, as of May.", 34, 6)
    sheet.flow(160, 350, "2 Pilots of the northern bay.", 34, 6)
    notes = ["1 Fees of the harbour office, as of May.", "2 Pilots of the northern bay."]
    assert clean_pdf(pdf(sheet)).text == "\n\n".join([left, notes[0], right, notes[1]])


def test_a_last_column_of_two_lines_is_a_column() -> None:
    sheet = Sheet()
    sheet.flow(60, sheet.flow(60, 780, HARBOUR, 46) - 8, PILOTS, 46)
    sheet.flow(310, 780, "Ferries sail each full hour from the quay, and on market days each half hour.", 46)
    assert clean_pdf(pdf(sheet)).text == "\n\n".join(
        [HARBOUR, PILOTS, "Ferries sail each full hour from the quay, and on market days each half hour."]
    )


def test_long_words_of_narrow_columns_are_cut_and_still_prose() -> None:
    left = [
        "Liegeplatzgebühren erhebt",
        "Hafenverwaltung; Wasser-",
        "schutzpolizei überwacht",
        "Schleusenzeiten.",
    ]
    right = [
        "Hochwasser meldet nun die",
        "veröffentlicht Wasser-",
        "straßenverwaltung täglich",
        "Landungsbrückentafeln.",
    ]
    sheet = Sheet()
    put_lines(sheet, 150, 780, left)
    put_lines(sheet, 290, 780, right)
    assert clean_pdf(pdf(sheet)).text == (
        "Liegeplatzgebühren erhebt Hafenverwaltung; Wasserschutzpolizei überwacht Schleusenzeiten.\n\n"
        "Hochwasser meldet nun die veröffentlicht Wasserstraßenverwaltung täglich Landungsbrückentafeln."
    )


ROWS = [
    ("Kind of boat", "Summer", "Winter", "Current"),
    *[("Yacht", "12.00", "8.00", "yes"), ("Barge", "30.00", "22.00", "no")] * 2,
]


def test_a_table_across_columns_is_read_row_by_row_between_them() -> None:
    sheet = Sheet()
    y = min(sheet.flow(60, 780, HARBOUR, 46), sheet.flow(310, 780, PILOTS, 46)) - 20
    for row in ROWS:
        for x, cell in zip((60, 220, 340, 460), row, strict=True):
            sheet.put(x, y, cell)
        y -= 14
    sheet.flow(60, y - 20, FERRY, 46)
    sheet.flow(310, y - 20, TIDES, 46)
    table = " ".join(" ".join(row) for row in ROWS)
    assert clean_pdf(pdf(sheet)).text == "\n\n".join([HARBOUR, PILOTS, table, FERRY, TIDES])


def test_a_table_within_a_column_stays_in_it() -> None:
    sheet = Sheet()
    y = sheet.flow(60, 780, HARBOUR, 46) - 10
    for row in ROWS:
        for x, cell in zip((60, 140, 190, 240), row, strict=True):
            sheet.put(x, y, cell)
        y -= 12
    sheet.flow(60, y - 10, FERRY, 46)
    sheet.flow(310, sheet.flow(310, 780, PILOTS, 46), TIDES, 46)
    found = clean_pdf(pdf(sheet)).text
    order = [found.index(text) for text in (HARBOUR, "Yacht 12.00 8.00 yes", FERRY, PILOTS, TIDES)]
    assert order == sorted(order)


def test_a_page_of_one_column_is_not_cut() -> None:
    sheet = Sheet()
    y = 780.0
    for text in (HARBOUR, PILOTS, FERRY, TIDES) * 3:
        y = sheet.flow(60, y, text, 95) - 8
    assert clean_pdf(pdf(sheet)).text == "\n\n".join((HARBOUR, PILOTS, FERRY, TIDES) * 3)


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_rotated_page_is_read_as_it_is_shown(turned: int) -> None:
    """A landscape page: its text is turned against its paper, which is turned back when it is shown."""
    sheet = Sheet(rotate=turned)
    matrix = {90: "0 1 -1 0 {1} {0}", 180: "-1 0 0 -1 {0} {1}", 270: "0 -1 1 0 {1} {0}"}[turned]
    lines = [HARBOUR[at : at + 60] for at in range(0, len(HARBOUR), 60)]
    for number, line in enumerate(lines):
        x, y = {90: (60, 100 + 12 * number), 180: (500, 100 + 12 * number), 270: (780, 500 - 12 * number)}[
            turned
        ]
        sheet.draw(f"{matrix.format(x, y)} Tm", line.strip(), 10)
    text = clean_pdf(pdf(sheet)).text
    assert text.replace(" ", "") == HARBOUR.replace(" ", "")


def test_a_stamp_up_the_margin_comes_after_the_text() -> None:
    sheet = Sheet()
    sheet.flow(60, 780, HARBOUR, 80)
    sheet.draw("0 1 -1 0 30 300 Tm", "filed 12 of 2024", 12)
    draft = clean_pdf(pdf(sheet))
    assert draft.text.startswith(HARBOUR)
    assert draft.text.endswith("filed 12 of 2024")


# ------------------------------------------------------------------------------------------- words and lines


def test_words_cut_at_the_end_of_a_line_are_joined() -> None:
    sheet = Sheet()
    lines = [
        "The har-", "bour of Baden-", "Württemberg keeps its Strom-", "und Gasnetze in a well-",
        "known house, and is well-known for the years 2019-", "2024 in all of the country.",
    ]  # fmt: skip
    for number, line in enumerate(lines):
        sheet.put(60, 780 - 12 * number, line)
    assert clean_pdf(pdf(sheet)).text == (
        "The harbour of Baden-Württemberg keeps its Strom- und Gasnetze in a well-known house, and is "
        "well-known for the years 2019-2024 in all of the country."
    )


def test_items_of_a_list_and_indented_paragraphs_stand_apart() -> None:
    sheet = Sheet()
    lines = [
        (60, "The office sells three things to skippers who ask for them at the counter:"),
        (60, "\x95 charts of the bay,"), (60, "\x95 tide tables,"), (60, "(a) flags."),
        (60, "It is closed on the first day of January, and on every day of a storm that is"),
        (60, "announced by the coast guard before noon, without exception."),
        (75, "Nobody is let in then, whoever it may be who knocks at the door of the office at"),
        (60, "such an hour."),
    ]  # fmt: skip
    for number, (x, line) in enumerate(lines):
        sheet.put(x, 780 - 12 * number, line.encode("latin-1").decode("cp1252"))
    paragraphs = clean_pdf(pdf(sheet)).text.split("\n\n")
    assert paragraphs[1:3] == ["• charts of the bay,", "• tide tables,"]
    assert paragraphs[-1] == (
        "Nobody is let in then, whoever it may be who knocks at the door of the office at such an hour."
    )


# ------------------------------------------------------------------------------------------- furniture


def paper(pages: int = 6) -> bytes:
    """Pages with a running header that differs left and right, and a page number; headings of three sizes."""
    sheets = []
    for number in range(1, pages + 1):
        sheet = Sheet()
        header = "Harbour board" if number % 2 else "Annual report 2023"
        sheet.put(60 if number % 2 else 400, 815, header, 8)
        sheet.put(290, 25, f"Page {number} of {pages}", 8)
        if number == 1:
            sheet.put(60, 760, "Report of the harbour board", 24)
        sheet.put(60, 720, f"{number}. Chapter of page {'abcdefgh'[number]}", 16)
        sheet.put(60, 700, f"{number}.1 What happened", 12.5)
        y = sheet.flow(60, 680, HARBOUR, 90)
        sheet.put(60, y - 12, "What it cost", 10, BOLD)
        sheet.flow(60, y - 30, TIDES, 90)
        sheets.append(sheet)
    return pdf(*sheets)


def test_running_headers_and_page_numbers_are_left_out() -> None:
    text = clean_pdf(paper()).text
    assert "Annual report" not in text
    assert text.count("Harbour board") == 0
    assert "Page 3" not in text
    assert text.count(HARBOUR) == 6


def test_headings_of_three_sizes_and_bold_ones_are_levels() -> None:
    draft = clean_pdf(paper())
    chapter = "1. Chapter of page b"
    assert sections(draft)[:4] == [
        (1, "Report of the harbour board"),
        (2, chapter),
        (3, "1.1 What happened"),
        (4, "What it cost"),
    ]
    assert path_of(draft, "High water")[:4] == [
        "Report of the harbour board", chapter, "1.1 What happened", "What it cost",
    ]  # fmt: skip
    assert below(draft, chapter) == "\n\n".join(
        [chapter, "1.1 What happened", HARBOUR, "What it cost", TIDES]
    )


@pytest.mark.parametrize("leader", [" . . . . . . . . ", "........", " ·······", " ...."])
def test_leaders_of_a_table_of_contents_are_cut(leader: str) -> None:
    first, second = Sheet(), Sheet()
    entries = [
        f"{number} Berth {number}{leader} {page}" for number, page in enumerate(["iv", "7", "A-12"], 1)
    ]
    y = 780.0
    for entry in [*entries, "Wait .... and see", "Tides turn..."]:
        first.put(60, y, entry)
        y -= 40
    second.flow(60, 780, HARBOUR, 80)
    draft = clean_pdf(pdf(first, second))
    assert draft.text.split("\n\n")[:5] == [
        *("1 Berth 1 iv", "2 Berth 2 7", "3 Berth 3 A-12"),
        "Wait .... and see",
        "Tides turn...",
    ]
    assert draft.text[draft.metadata["page_starts"][1] :].startswith("The harbour office")


def test_what_only_looks_like_a_running_header_stays() -> None:
    sheets = []
    for number in range(1, 6):
        sheet = Sheet()
        sheet.put(60, 815, f"Article {number * 3}", 10, BOLD)
        sheet.flow(60, 790, f"{HARBOUR} {number}", 90)
        sheets.append(sheet)
    draft = clean_pdf(pdf(*sheets))
    assert [heading for _, heading in sections(draft)] == [f"Article {number * 3}" for number in range(1, 6)]


def test_a_paragraph_that_comes_on_every_page_stays() -> None:
    sheets = []
    for number in range(1, 6):
        sheet = Sheet()
        sheet.put(290, 815, f"{number} / 5", 10)
        sheet.flow(60, 790, f"{HARBOUR} {HARBOUR} {HARBOUR}", 90)
        sheets.append(sheet)
    assert clean_pdf(pdf(*sheets)).text == "\n\n".join([f"{HARBOUR} {HARBOUR} {HARBOUR}"] * 5)


def test_roman_page_numbers_and_headers_that_change_with_the_chapter() -> None:
    sheets = []
    texts = [HARBOUR, PILOTS, FERRY, TIDES, f"{TIDES} {FERRY}", f"{PILOTS} {HARBOUR}"]
    for number, (text, roman) in enumerate(zip(texts, ("i", "ii", "iii", "iv", "v", "vi"), strict=True), 1):
        sheet = Sheet()
        sheet.put(60, 815, f"{('Moorings', 'Pilots', 'Tides')[(number - 1) // 2]} {number}", 9)
        sheet.put(300, 25, roman, 9)
        sheet.flow(60, 780, text, 90)
        sheets.append(sheet)
    assert clean_pdf(pdf(*sheets)).text == "\n\n".join(texts)


# ------------------------------------------------------------------------------------------- pages, facts


def test_without_headings_each_page_is_a_section() -> None:
    sheets = [Sheet(), Sheet(), Sheet()]
    sheets[0].flow(60, 700, HARBOUR, 90)
    sheets[2].flow(60, 700, FERRY, 90)
    draft = clean_pdf(pdf(*sheets))
    assert sections_by_page(draft) == {"page 1": HARBOUR, "page 3": FERRY}
    assert draft.metadata["page_starts"] == [0, len(HARBOUR) + 2, len(HARBOUR) + 2]


def sections_by_page(draft: DocumentDraft) -> dict[str, str]:
    return {one["heading"]: draft.text[one["start"] : one["end"]] for one in draft.sections}


def test_a_chunk_knows_its_page() -> None:
    draft = clean_pdf(paper())
    document: dict[str, Any] = {"title": draft.title, **draft.metadata}
    for number in (1, 4, 6):
        start = draft.text.index(f"{number}. Chapter")
        assert facts_of(document, 3, start, 0, "x")["page"] == number


def test_title_and_date() -> None:
    sheet = Sheet()
    sheet.put(60, 780, "Notice to mariners of 3 May 2024", 18)
    sheet.flow(60, 740, HARBOUR, 90)
    draft = clean_pdf(pdf(sheet, title="Microsoft Word - notice7.docx", created="D:20240506120000Z"))
    assert draft.title == "Notice to mariners of 3 May 2024"
    assert (draft.published_at, draft.metadata["date_source"]) == ("2024-05-03", "text")
    assert draft.metadata["pdf_created"] == "2024-05-06"
    older = clean_pdf(pdf(sheet, title="A notice", created="D:20240101"))
    assert (older.title, older.published_at, older.metadata["date_source"]) == ("A notice", None, "none")


# ------------------------------------------------------------------------------------------- hostile files


def test_ten_thousand_empty_pages_are_refused() -> None:
    body = pdf(*[Sheet()] * 10_000)
    with pytest.raises(UnusablePage, match="PDF: more than 2000 pages: 10000"):
        clean_pdf(body)


def test_absurd_sizes_and_places_end_in_a_document() -> None:
    sheet = Sheet()
    for size in (0, 1e-9, 1e30, -10, 99999):
        sheet.put(100, 400, "absurd", size)
    sheet.draw("0 0 0 0 60 60 Tm", "flat", 10)
    sheet.put(1e9, -1e9, "elsewhere")
    sheet.flow(60, 780, HARBOUR, 90)
    draft = clean_pdf(pdf(sheet))
    assert HARBOUR in draft.text
    assert "elsewhere" not in draft.text


def test_a_page_of_very_many_pieces_is_read() -> None:
    sheet = Sheet()
    for number in range(20_000):
        sheet.put(10 + number * 37 % 570, 10 + number * 17 % 820, "word")
    assert clean_pdf(pdf(sheet)).text.count("word") > 1000


def test_more_characters_than_can_be_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "MAX_CHARACTERS", 1000)
    with pytest.raises(UnusablePage, match="PDF: more than 1000 characters"):
        clean_pdf(paper())


def test_pages_that_hold_images_only_have_their_reason() -> None:
    document = pdfium.PdfDocument.new()
    document.new_page(100, 100)
    with pytest.raises(UnusablePage, match="PDF: truncated"):
        clean_pdf(pdf(Sheet())[:300])
    with pytest.raises(UnusablePage, match="PDF: no text: images only"):
        clean_pdf(pdf(Sheet()))


def test_a_file_whose_pages_are_broken_is_not_taken_for_images() -> None:
    body = pdf(Sheet(), Sheet()).replace(b"/Type/Page/Parent", b"/Type/Pane/Parent")
    with pytest.raises(UnusablePage, match="PDF: damaged: none of its pages can be read"):
        clean_pdf(body)


def test_a_file_that_was_filled_up_is_whole() -> None:
    sheet = Sheet()
    sheet.flow(60, 780, HARBOUR, 90)
    assert clean_pdf(pdf(sheet) + bytes(5000)).text == HARBOUR


def test_pages_that_are_images_are_told() -> None:
    """Blank pages are none, nor are pictures in a text; a stamp makes no text of a scan."""
    text, blank, scan, stamped, illustrated = (Sheet() for _ in range(5))
    text.flow(50, 700, STORY, 80)
    scan.picture(595, 842)
    stamped.picture(595, 842)
    stamped.put(50, 30, "Page 4 of 5")
    illustrated.picture(595, 842)
    illustrated.flow(50, 700, STORY, 80)
    draft = clean_pdf(pdf(text, blank, scan, stamped, illustrated))
    assert draft.metadata["scanned_pages"] == [3, 4]
    assert "scanned_pages" not in clean_pdf(pdf(text, blank)).metadata


@pytest.mark.parametrize(
    ("said", "authors"),
    [
        ("Ada Pilot", ("Ada Pilot",)),
        ("Ada Pilot, Ben Quay", ("Ada Pilot", "Ben Quay")),
        ("Pilot, Ada; Quay, Ben", ("Pilot, Ada", "Quay, Ben")),
        ("\\(anonymous\\)", ()),
        ("", ()),
    ],
)
def test_authors_are_those_that_the_file_names(said: str, authors: tuple[str, ...]) -> None:
    sheet = Sheet()
    sheet.flow(50, 700, STORY, 80)
    assert clean_pdf(pdf(sheet, author=said)).authors == authors


@pytest.mark.parametrize(
    "title", ["\\(anonymous\\)", "anonymous", "\\(unspecified\\)", "Untitled 3", "a.docx"]
)
def test_what_programs_write_as_a_title_is_none(title: str) -> None:
    sheet = Sheet()
    sheet.put(50, 750, "Rules of the harbour", 24)
    sheet.flow(50, 700, STORY, 80)
    assert clean_pdf(pdf(sheet, title=title)).title == "Rules of the harbour"


@pytest.mark.parametrize("order", ["of the line", "of reading"])
def test_arabic_and_hebrew_are_read_from_right_to_left(order: str) -> None:
    lines = {
        "تغادر العبارة الميناء في الساعة 12 من جزيرة Port Ellen وتعود": [
            "دوعتو ",
            "Port Ellen ",
            "ةريزج نم ",
            "12 ",
            "ةعاسلا يف ءانيملا ةرابعلا رداغت",
        ],
        "המעבורת יוצאת מהנמל בשעה 12 ומגיעה לאי": ["יאל העיגמו ", "12 ", "העשב למנהמ תאצוי תרובעמה"],
    }
    sheet = Sheet()
    for number, parts in enumerate(lines.values()):
        # From left to right, as it is seen.
        places = [50 + 6 * sum(map(len, parts[:at])) for at in range(len(parts))]
        drawn = list(zip(places, parts, strict=True))
        for x, part in reversed(drawn) if order == "of reading" else [(50, "".join(parts))]:
            sheet.put_signs(x, 700 - 40 * number, part, 12)
    assert clean_pdf(pdf(sheet)).text.split("\n\n") == list(lines)
