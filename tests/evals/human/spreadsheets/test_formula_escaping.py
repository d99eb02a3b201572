from hypothesis import example, given, settings
from hypothesis import strategies as st

from rag_assay.evals.human.spreadsheets.formula_escaping import (
    BOOK,
    CSV,
    LONGEST_CELL,
    pieces,
    same_text,
    units,
)

HOSTILE = st.lists(
    st.sampled_from(
        [*"=+-@\t\r\n;,|' \"#", "＝", "＋", "－", "＠", "\u00a0", "\x00", "\x1b", "\ufffe", "_x0007_"]
    )
    | st.sampled_from(
        ["cmd|' /C calc'!A0", "DDE(", "HYPERLINK(", "#N/A", "_x005F_", "_x000D_", "a", "ß", "😀"]
    )
    | st.text(max_size=3),
    max_size=12,
).map("".join)
FORMS = {"book": BOOK, "csv": CSV}


@given(HOSTILE, st.sampled_from(sorted(FORMS)))
@example("=1+1", "csv")
@example("\t=1", "csv")
@example("''=1", "book")
@example("#N/A", "book")
@example("_x005F_x0007_", "book")
def test_a_cell_is_read_as_what_was_written(text: str, form: str) -> None:
    assert FORMS[form].read(FORMS[form].written(text)) == text


@given(HOSTILE, st.sampled_from(sorted(FORMS)))
def test_no_cell_begins_as_a_formula(text: str, form: str) -> None:
    cell = FORMS[form].written(text)
    assert not cell.lstrip(' "\u00a0').startswith(tuple("=+-@\t\r\n＝＋－＠"))
    assert cell.strip() not in {"#N/A", "#REF!", "#DIV/0!"}


@given(HOSTILE)
def test_no_cell_begins_as_a_formula_wherever_a_csv_is_split(text: str) -> None:
    cell = CSV.written(text)
    for sign in "\r\n\t;,":
        for part in cell.split(sign):
            rest = part.lstrip(' "\u00a0')
            assert not rest.startswith(tuple("=+-@＝＋－＠")), (sign, part)


@given(HOSTILE)
def test_a_workbook_can_hold_what_is_written(text: str) -> None:
    cell = BOOK.written(text)
    assert all(one in "\t\n" or (one >= " " and one not in "\ufffe\uffff") for one in cell)


@settings(max_examples=25, deadline=None)  # texts of many cells
@given(
    st.text(max_size=50),
    st.integers(0, 3 * LONGEST_CELL),
    st.sampled_from(["a", "\x07", "😀", "=", "_x0041_"]),
)
def test_a_long_text_is_cut_into_cells_that_excel_keeps(text: str, times: int, filler: str) -> None:
    whole = text + filler * (times // len(filler)) + text
    for form in FORMS.values():
        cells = pieces(whole, form.written)
        assert all(units(cell) <= LONGEST_CELL for cell in cells)
        assert "".join(map(form.read, cells)) == whole


def test_one_more_than_the_limit_is_a_second_cell() -> None:
    assert len(pieces("a" * LONGEST_CELL, BOOK.written)) == 1
    assert len(pieces("a" * (LONGEST_CELL + 1), BOOK.written)) == 2
    assert len(pieces("=" + "a" * (LONGEST_CELL - 1), BOOK.written)) == 2  # the guard takes one
    assert len(pieces("😀" * (LONGEST_CELL // 2 + 1), BOOK.written)) == 2  # two units each
    assert pieces("", BOOK.written) == [""]


def test_texts_are_one_whatever_programs_do_to_white_space_and_guards() -> None:
    assert same_text("a\r\n b\x07", "a\nb")
    assert same_text("'=1;'+2", "=1;+2")
    assert not same_text("It is 5.", "It is 6.")
    assert not same_text("a", "")
