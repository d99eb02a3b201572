r"""Texts as cells of a spreadsheet that no program takes for formulas, and back.

A text that begins with `=`, `+`, `-`, `@`, a tab or a line break may be run as a formula (CWE-1236; OWASP,
"CSV Injection"): it gets an apostrophe in front. In a CSV file a program may split a text at another sign
than we do, so that it gets one there, too. Reading takes away exactly what writing has added.

Characters that the XML of a workbook cannot hold are written as Excel writes them, `_x0007_` (ECMA-376 part
1, 22.9.2.19 `ST_Xstring`). Excel keeps 32,767 characters of a cell: a longer text is written as several
pieces.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

LONGEST_CELL = 32_767  # units of UTF-16 that Excel keeps of a cell
_SIGNS = "=+\\-@＝＋－＠"
_COVER = '[ "\u00a0]*'  # what may stand before the sign
_ERRORS = r"#(?:DIV/0!|N/A|NAME\?|NULL!|NUM!|REF!|VALUE!|SPILL!|CALC!)\s*$"
_AT_START = f"(?:{_COVER}[{_SIGNS}\t\r\n]|{_ERRORS})"
_INSIDE = f"{_COVER}[{_SIGNS}]"
_GUARDED = re.compile(rf"^'(?='*{_AT_START})")
_BARE = re.compile(rf"^(?='*{_AT_START})")
_GUARDED_INSIDE = re.compile(rf"(?:(?<=[\r\n\t;,])|^)'(?='*{_INSIDE})|^'(?='*{_AT_START})")
_BARE_INSIDE = re.compile(rf"(?<=[\r\n\t;,])(?='*{_INSIDE})|^(?='*{_AT_START})")
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0d\x0e-\x1f\ud800-\udfff\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
_WRITTEN = re.compile("_x([0-9A-Fa-f]{4})_")


def guard_cell(text: str) -> str:
    """
    >>> guard_cell("=1+1"), guard_cell("'=1"), guard_cell("5 - 3"), guard_cell("'twas")
    ("'=1+1", "''=1", '5 - 3', "'twas")
    """
    return _BARE.sub("'", text)


def unguard_cell(text: str) -> str:
    """Undo `guard_cell`; any other text stays as it is."""
    return _GUARDED.sub("", text)


def guard_csv_cell(text: str) -> str:
    r"""Guard a text wherever a program may split the CSV file.

    >>> guard_csv_cell("well;=1+1"), guard_csv_cell("- one\n- two")
    ("well;'=1+1", "'- one\n'- two")
    """
    return _BARE_INSIDE.sub("'", text)


def unguard_csv_cell(text: str) -> str:
    return _GUARDED_INSIDE.sub("", text)


def escape_xml(text: str) -> str:
    r"""Write what the XML of a workbook cannot hold as Excel does.

    >>> escape_xml("a\x07b"), escape_xml("_x0007_")
    ('a_x0007_b', '_x005F_x0007_')
    """
    return _UNWRITABLE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)


def unescape_xml(text: str) -> str:
    return _WRITTEN.sub(lambda found: chr(int(found[1], 16)), text)


class CellEncoding(NamedTuple):
    """How texts are written as cells of a file format, and read again."""

    written: Callable[[str], str]
    read: Callable[[str], str]


BOOK = CellEncoding(lambda text: escape_xml(guard_cell(text)), lambda cell: unguard_cell(unescape_xml(cell)))
CSV = CellEncoding(
    lambda text: "\r".join(escape_xml(part) for part in guard_csv_cell(text).split("\r")),
    lambda cell: unguard_csv_cell(unescape_xml(cell)),
)


def quoted_csv(rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(rows)
    return out.getvalue()


def units(text: str) -> int:
    return len(text) + sum(char > "\uffff" for char in text)


def pieces(text: str, written: Callable[[str], str]) -> list[str]:
    found: list[str] = []
    at = 0
    while True:
        end = min(at + LONGEST_CELL, len(text))
        while (length := units(cell := written(text[at:end]))) > LONGEST_CELL:
            end = min(at + (end - at) * LONGEST_CELL // length, end - 1)
        found.append(cell)
        at = end
        if at >= len(text):
            return found


def same_text(one: str, other: str) -> bool:
    r"""Compare texts without white space, guards and controls, which programs change."""
    return one == other or _plain(one) == _plain(other)


def _plain(text: str) -> str:
    bare = unguard_csv_cell(unescape_xml(text))
    return "".join(
        one for one in unicodedata.normalize("NFC", bare) if one.isprintable() and not one.isspace()
    )
