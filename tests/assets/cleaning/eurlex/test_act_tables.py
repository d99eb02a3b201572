"""Tables of acts: every value stays in the column that its page shows it in."""

from __future__ import annotations

import pytest

from rag_assay.assets.cleaning.eurlex.cleaner import clean_eurlex


def rows(table: str) -> list[str]:
    page = (
        f'<html><body><p class="oj-doc-ti">DECISION</p><p class="oj-normal">Table:</p>{table}</body></html>'
    )
    return (
        clean_eurlex(page.encode(), "text/html; charset=utf-8", "").text.partition("Table:\n")[2].splitlines()
    )


def cells(*row: str) -> str:
    return f"<tr>{''.join(cell if cell.startswith('<t') else f'<td>{cell}</td>' for cell in row)}</tr>"


def data(*table_rows: str) -> str:
    return f'<table class="oj-table">{"".join(table_rows)}</table>'


def test_a_header_over_two_rows_shifts_no_column() -> None:
    table = data(
        cells('<th rowspan="2">Fuel</th>', '<th colspan="2">Emission</th>', "<th>Year</th>"),
        cells("<th>least</th>", "<th>most</th>", "<th>of report</th>"),
        cells("Coal", "1", "2", "2020"),
    )
    assert rows(table) == [
        "Fuel | Emission |  | Year",
        "Fuel | least | most | of report",
        "Coal | 1 | 2 | 2020",
    ]


def test_the_label_of_several_rows_stands_in_each() -> None:
    table = data(
        cells('<td rowspan="3">Wood</td>', "1 km", '<td rowspan="2">9 %</td>'),
        cells("2 km"),
        cells("3 km", "8 %"),
        cells("Straw", "1 km", "7 %"),
    )
    assert rows(table) == [
        "Wood | 1 km | 9 %",
        "Wood | 2 km | 9 %",
        "Wood | 3 km | 8 %",
        "Straw | 1 km | 7 %",
    ]


def test_a_long_cell_over_several_rows_stands_once_and_keeps_its_column() -> None:
    long = "word " * 30
    table = data(cells(f'<td rowspan="2">{long}</td>', "1"), cells("2"))
    assert rows(table) == [f"{long}| 1", "| 2"]


@pytest.mark.parametrize("rowspan", ["0", "99", "65534", "4000000000"])
def test_no_cell_reaches_out_of_its_part_of_the_table(rowspan: str) -> None:
    head = f"<thead>{cells(f'<th rowspan={rowspan}>Fuel</th>', '<th>Watt</th>')}</thead>"
    assert rows(data(head, f"<tbody>{cells('Coal', '1')}</tbody>")) == ["Fuel | Watt", "Coal | 1"]


@pytest.mark.parametrize("span", ["", "two", "-1", "1.5", "0x2"])
def test_a_span_that_is_no_number_is_one(span: str) -> None:
    assert rows(data(cells(f'<td colspan="{span}" rowspan="{span}">a</td>', "b"), cells("c", "d"))) == [
        "a | b",
        "c | d",
    ]


def test_spans_of_millions_take_no_memory() -> None:
    wide = "".join(cells(*['<td colspan="60000" rowspan="60000">x</td>'] * 20, "end") for _ in range(30))
    assert max(len(row) for row in rows(data(wide))) < 5_000


def test_empty_cells_keep_their_places() -> None:
    table = data(cells("", "least", "most"), cells("Coal", "", "2"), cells("Wood", "1", ""))
    assert rows(table) == ["| least | most", "Coal |  | 2", "Wood | 1"]


def test_a_caption_is_read() -> None:
    table = f'<table class="oj-table"><caption>Table 1: fuels</caption>{cells("Coal", "1")}</table>'
    assert rows(table) == ["Table 1: fuels", "Coal | 1"]


def test_paragraphs_of_one_cell_are_words_apart() -> None:
    table = data(cells("<div><p>one</p><p>two</p></div>", "a<br>b", "H<sub>2</sub>O"))
    assert rows(table) == ["one two | a b | H2O"]


def test_a_list_in_a_cell_stays_in_it() -> None:
    inner = f"<table>{cells('(a)', 'coal')}{cells('(b)', 'wood')}</table>"
    assert rows(data(cells("Fuels", f"one of: {inner}", "2020"))) == [
        "Fuels | one of: (a) coal (b) wood | 2020"
    ]


def test_the_rows_of_a_table_in_a_cell_follow_its_row() -> None:
    inner = data(cells("least", "1"), cells("most", "2"))
    assert rows(data(cells("Coal", f"see {inner}"), cells("Wood", "none"))) == [
        "Coal | see", "least | 1", "most | 2", "Wood | none",
    ]  # fmt: skip


def test_a_table_without_a_class_whose_cells_span_rows_is_one_of_data() -> None:
    table = f"<table>{cells('<td rowspan=2>1.</td>', 'a', 'b')}{cells('c', 'd')}</table>"
    assert rows(table) == ["1. | a | b", "1. | c | d"]
