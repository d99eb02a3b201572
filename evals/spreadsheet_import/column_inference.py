"""Guesses what the columns of a spreadsheet mean, and says why; what cannot be told is left to the person."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from rag_assay.assets.cleaning.language import detect
from rag_assay.evals.question_sets.readers.records import finite_number
from rag_assay.evals.rubrics.points import Points
from rag_assay.evals.spreadsheet_import.bundle import AXES
from rag_assay.evals.spreadsheet_import.mapping import Columns
from rag_assay.evals.spreadsheet_import.tables import (
    UnusableCell,
    filled_worksheets,
    fold_name,
    is_missing,
    key_name,
    open_table,
    value_of,
)
from rag_assay.warehouse.yaml_positions import escape_text

_NAMES = tomllib.loads(Path(__file__).with_name("column_names.toml").read_text("utf-8"))
KNOWN: dict[str, tuple[str, ...]] = {role: tuple(names) for role, names in _NAMES.items()}
"""Role of a column -> what it is called, the likeliest first."""


def plain_name(name: str) -> str:
    """
    >>> plain_name(" Retrieve_Methods"), plain_name("userInput")
    ('retrieve methods', 'user input')
    """
    parted = re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z])", " ", name)
    return " ".join(re.sub(r"[_\-/:]+", " ", fold_name(parted)).split())


def role_of(name: str) -> tuple[str, int] | None:
    """
    >>> role_of("Chunk-Strategie"), role_of("Bewertung"), role_of("x")
    (('chunking', 1), ('score', 12), None)
    """
    plain = plain_name(name)
    for role, names in KNOWN.items():
        if plain in names:
            return role, names.index(plain)
    return None


LOOKED_AT = 5_000  # rows
MOST_VALUES = 11  # of a rubric
FEW = 60  # names of an axis
_YES = {"yes", "true", "ja", "correct", "richtig", "right", "oui", "sí", "si"}
_NO = {"no", "false", "nein", "incorrect", "falsch", "wrong", "non"}


@dataclass(frozen=True)
class ColumnGuess:
    """A column, and why it has its role."""

    column: str
    why: str


@dataclass
class Guess:
    """What a spreadsheet seems to say. roles: role or axis -> column; words: of the scores; unanswered: rows
    with the lowest score and no answer; None: some have another score
    """

    study: str
    roles: dict[str, ColumnGuess] = field(default_factory=dict)
    words: dict[str, float] = field(default_factory=dict)
    values: tuple[float, ...] = ()
    unread: list[str] = field(default_factory=list)
    language: str | None = None
    unanswered: int | None = 0
    worksheet: str | None = None
    others: tuple[str, ...] = ()

    @property
    def is_default(self) -> bool:
        return set(self.values) <= set(Points().anchors)


@dataclass(frozen=True)
class ColumnSample:
    """What the cells of a column look like."""

    name: str
    values: tuple[Any, ...]

    @property
    def texts(self) -> list[str]:
        return [one for one in self.values if isinstance(one, str)]

    @property
    def distinct(self) -> int:
        return len({repr(one) for one in self.values})

    @property
    def length(self) -> float:
        return sum(map(len, self.texts)) / len(self.texts) if self.texts else 0.0

    @property
    def is_text(self) -> bool:
        texts = self.texts
        return len(texts) * 2 > len(self.values) and self.length >= 12 and not self.is_listed

    @property
    def is_listed(self) -> bool:
        lists = sum(isinstance(value_of(one), list | tuple) for one in self.values[:200])
        return lists * 2 > len(self.values[:200])

    @property
    def is_asked(self) -> bool:
        return sum(one.rstrip().endswith(("?", "？")) for one in self.texts) * 2 > len(self.texts) > 0


def guess(path: Path) -> Guess:
    worksheets = filled_worksheets(path) if path.suffix.lower() in {".xlsx", ".xlsm"} else []
    one = worksheets[0] if len(worksheets) > 1 else None
    table = open_table(path, worksheet=one)
    rows = [row for _, row in islice(table.rows, LOOKED_AT) if isinstance(row, Mapping)]
    columns = [_column_sample(name, rows) for name in dict.fromkeys(table.columns)]
    found = Guess(key_name(path.name.rpartition(".")[0]), worksheet=one, others=tuple(worksheets[1:]))
    _by_name(columns, found)
    _by_contents(columns, found)
    _check_ids(rows, found)
    _look_at_scores(columns, rows, found)
    taken = {one.column for one in found.roles.values()}
    found.unread = [one.name for one in columns if one.name not in taken]
    if "question" in found.roles and "language" not in found.roles:
        asked = next(one for one in columns if one.name == found.roles["question"].column)
        found.language = detect("\n".join(dict.fromkeys(asked.texts)))
    return found


def _column_sample(name: str, rows: Sequence[Mapping[str, Any]]) -> ColumnSample:
    cells = (row.get(fold_name(name)) for row in rows)
    usable = (one for one in cells if not is_missing(one) and not isinstance(one, UnusableCell))
    return ColumnSample(name, tuple(usable))


def _by_name(columns: Sequence[ColumnSample], found: Guess) -> None:
    best: dict[str, tuple[int, ColumnSample]] = {}
    for column in columns:
        known = role_of(column.name)
        if known is None or not column.values or not _fits(known[0], column):
            continue
        role, place = known
        if role not in best or place < best[role][0]:
            best[role] = (place, column)
    for role, (_, column) in best.items():
        found.roles[role] = ColumnGuess(column.name, "its name")


def _fits(role: str, column: ColumnSample) -> bool:
    if role == "score":
        return column.distinct <= MOST_VALUES
    if role in AXES:
        return column.distinct <= FEW
    return role != "language" or all(len(one) == 2 for one in column.texts)


def _looks_scored(column: ColumnSample) -> bool:
    are_numbers = all(not isinstance(one, bool) and _number(one) is not None for one in column.values)
    return are_numbers and len(column.values) > column.distinct and 2 <= column.distinct <= MOST_VALUES


def _is_size(column: ColumnSample) -> bool:
    values = [value_of(one) for one in column.values[:200]]
    pairs = (one for one in values if isinstance(one, list | tuple) and len(one) == 2)
    sizes = [one for one in pairs if all(isinstance(n, int) for n in one)]
    return column.distinct <= FEW and len(sizes) == len(values)


def _is_question(column: ColumnSample) -> bool:
    return column.is_asked and not column.is_listed


def _is_long_list(column: ColumnSample) -> bool:
    return column.is_listed and column.length >= 200


def _is_short_list(column: ColumnSample) -> bool:
    return column.distinct <= FEW and column.is_listed and not _is_size(column)


def _variety(column: ColumnSample) -> tuple[int, float]:
    return column.distinct, column.length


_FINDERS: dict[str, tuple[Callable[[ColumnSample], bool], Callable[[ColumnSample], Any] | None, str]] = {
    "question": (_is_question, lambda one: -one.distinct, "its texts end in `?`; {} different ones"),
    "contexts": (_is_long_list, lambda one: one.length, "its cells are lists of long texts"),
    "answer": (lambda one: one.is_text, _variety, "the most different texts: {}"),
    "score": (_looks_scored, None, "few different numbers: {}"),
    "chunking": (_is_size, None, "pairs of numbers, as size and overlap"),
    "retriever": (_is_short_list, None, "short lists that recur"),
}
"""Role -> which columns fit it, which of several is taken (None: there must be one alone), and why."""


def _by_contents(columns: Sequence[ColumnSample], found: Guess) -> None:
    for role, (fits, rank, why) in _FINDERS.items():
        if role in found.roles:
            continue
        taken = {one.column for one in found.roles.values()}
        left = [one for one in columns if one.values and one.name not in taken and fits(one)]
        if left and (rank or len(left) == 1):
            best = max(left, key=rank) if rank else left[0]
            found.roles[role] = ColumnGuess(best.name, why.format(best.distinct))


def _check_ids(rows: Sequence[Mapping[str, Any]], found: Guess) -> None:
    if "question_id" not in found.roles or "question" not in found.roles:
        return
    asked, named = (fold_name(found.roles[role].column) for role in ("question", "question_id"))
    pairs = {(repr(row.get(named)), row.get(asked)) for row in rows}
    n_questions = len({question for _, question in pairs})
    if not len(pairs) == len({name for name, _ in pairs}) == n_questions:
        del found.roles["question_id"]


def _look_at_scores(columns: Sequence[ColumnSample], rows: Sequence[Mapping[str, Any]], found: Guess) -> None:
    if "score" not in found.roles:
        return
    column = next(one for one in columns if one.name == found.roles["score"].column)
    for one in column.values:
        word = str(one).strip().casefold()
        if isinstance(one, bool) or (isinstance(one, str) and word in _YES | _NO):
            found.words[str(one).strip()] = float(one is True or word in _YES)
    numbers = {_number(one) for one in column.values if str(one).strip() not in found.words}
    found.values = tuple(sorted({*found.words.values(), *(one for one in numbers if one is not None)})[::-1])
    if "answer" not in found.roles or not found.values:
        return
    answer, score = fold_name(found.roles["answer"].column), fold_name(column.name)
    without = [row[score] for row in rows if is_missing(row.get(answer)) and not is_missing(row.get(score))]
    lowest = all(_number(one) == found.values[-1] for one in without)
    found.unanswered = len(without) if lowest else None


def _number(value: Any) -> float | None:
    return finite_number(str(value).strip().replace(",", "."))


_PLAIN = re.compile(r"[A-Za-z_ÄÖÜäöüß][\w ÄÖÜäöüß.-]*(?<! )")
_WORDS = frozenset({"yes", "no", "true", "false", "null", "on", "off", "y", "n", "none"})


def quote_yaml(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _WORDS:
        return text
    return json.dumps(escape_text(text), ensure_ascii=True)


def write_mapping(found: Guess, file: Path) -> str:
    return "\n".join(_lines(found, file)) + "\n"


def _lines(found: Guess, file: Path) -> Iterator[str]:
    yield f"# Guessed from {_comment(file.name)} by `assay ratings import --guess`; read it first."
    yield f"study: {found.study}  # a name of your choice; the same for all sheets of one study"
    yield f"sheet: {found.study}"
    if found.worksheet:
        yield f"worksheet: {quote_yaml(found.worksheet)}  # others are {_comment(', '.join(found.others))}"
    yield f"language: {found.language}" if found.language else "# language: en"
    yield "columns:"
    for role, column in Columns.model_fields.items():
        yield from _column(found, role, is_needed=column.is_required())
    yield "cell:"
    for axis in AXES:
        yield from _axis(found, axis)
    yield from _scores(found)
    if "annotator" not in found.roles:
        yield "# annotator: NAME  # who scored? the sheet does not say"
    yield from _answers(found)
    for name in found.unread:
        yield f"# not read: the column {_comment(name)}"


def _column(found: Guess, role: str, *, is_needed: bool) -> Iterator[str]:
    if role in found.roles:
        yield f"  {role}: {quote_yaml(found.roles[role].column)}"
    elif is_needed:
        yield f"  {role}:  # which column? none looks like it"
    elif role in {"contexts", "ground_truth"}:
        yield f"  # {role}: NAME OF A COLUMN"


def _axis(found: Guess, axis: str) -> Iterator[str]:
    if axis in found.roles:
        yield f"  {axis}: {{column: {quote_yaml(found.roles[axis].column)}}}"
    elif axis == "generator":
        yield "  generator:  # who answered? the sheet does not say: a name, as in llama-2-13b"
    else:
        yield f"  # {axis}: NAME, or {{column: NAME OF A COLUMN}}"


def _scores(found: Guess) -> Iterator[str]:
    yield "scores:"
    if "score" not in found.roles or not found.values:
        yield "  points:  # which column? none has few different numbers alone"
        return
    column = quote_yaml(found.roles["score"].column)
    if found.words:
        words = ", ".join(f"{quote_yaml(word)}: {value:g}" for word, value in found.words.items())
        yield f"  points: {{column: {column}, values: {{{words}}}}}"
    else:
        yield f"  points: {column}"
    if found.is_default:
        return
    yield "rubrics:"
    yield "  points:"
    yield "    points:"
    if not 2 <= len(found.values) <= MOST_VALUES:
        yield f"      anchors:  # value: what it is given for; {len(found.values)} values are there"
        return
    yield "      anchors:  # write what each is given for: scores by other words are not mixed with these"
    for value in found.values:
        yield f"        {value:g}: {quote_yaml(f'{value:g} in the sheet')}"


def _answers(found: Guess) -> Iterator[str]:
    if found.unanswered is None:
        yield "# empty_answers: keep  # some rows have no answer, but a score that is not the lowest one"
    elif found.unanswered:
        yield f"empty_answers: keep  # {found.unanswered} rows have no answer, and the lowest score"


def reasons(found: Guess) -> Iterator[str]:
    for role, one in found.roles.items():
        yield f"{role}: the column {one.column!r}{', by' if one.why == 'its name' else ':'} {one.why}"
    if found.language:
        yield f"language: {found.language}, as the questions are written"
    if found.values:
        told = ", ".join(f"{value:g}" for value in found.values)
        rubric = ", ".join(f"{value:g}" for value in Points().anchors)
        what = f"as the rubric of {rubric}" if found.is_default else "no rubric is known: say what each means"
        yield f"scores: {told}: {what}"
    if found.unanswered:
        yield f"empty_answers: keep: {found.unanswered} rows have no answer and the lowest score"
    if found.others:
        others = ", ".join(map(repr, found.others))
        yield f"worksheet: {found.worksheet!r} is the first; there are {others}, too"
    lacking = [role for role in ("question", "answer", "score", "generator") if role not in found.roles]
    for role in lacking:
        yield f"{role}: not told; fill it in"
    if found.unread:
        yield f"not read: {', '.join(map(repr, found.unread[:20]))}"


def _comment(text: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())[:120]
