"""Finds lists and tables in a text, with the line that introduces each: an item alone says little."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rag_assay.assets.chunking.sentence_splitter import sentence_places

_ITEM = re.compile(r"\s*(?:[-–•*·+]|\(?\d{1,3}[.)]|\(?[a-zA-Z]\))\s+\S")
_OF_A_RULE = frozenset("|:+- \t")  # which stands between the head of a table and its rows
_HEADING = re.compile(r"\s*#{1,6} ")
_ENDED = re.compile(r"[.!?…][\"'”’»)\]*_]*$")


class ListBlock(NamedTuple):
    """A list or table.

    lead: the line that introduces it, and the head of a table; empty where there is neither
    items: its entries or rows, each on one line or several
    """

    lead: tuple[str, ...]
    items: tuple[str, ...]


def blocks(text: str) -> Iterator[str | ListBlock]:
    r"""Yield what a text is made of, in its order: prose, and lists or tables.

    A list is two lines or more that begin with a bullet, a number or a letter, or one after a colon; a table
    two lines or more of cells between bars or tabs. What introduces it is the last sentence of the line
    before: one that stands right above it, or ends in no full stop.

    >>> list(blocks("It sails. Fares are:\n\n- adult 5\n- child 2\n\nPay in cash."))
    ['It sails.', ListBlock(lead=('Fares are:',), items=('- adult 5', '- child 2')), 'Pay in cash.']
    """
    lines = text.split("\n")
    prose: list[str] = []
    at = 0
    while at < len(lines):
        found = _table(lines, at) or _list(lines, at, prose)
        if found is None:
            prose.append(lines[at])
            at += 1
            continue
        listed, at = found
        before, introduction = _parted(prose)
        if before.strip():
            yield before
        lead = tuple(one for one in (introduction, *listed.lead) if one)
        yield ListBlock(lead, listed.items)
        prose = []
    if rest := "\n".join(prose).strip():
        yield rest


def _list(lines: Sequence[str], at: int, prose: Sequence[str]) -> tuple[ListBlock, int] | None:
    """Return the list that begins at a line, and the line after it; None where none begins.

    prose: lines before it
    """
    if not _ITEM.match(lines[at]):
        return None
    items: list[str] = []
    end = at
    while at < len(lines):
        line = lines[at]
        if _ITEM.match(line):
            items.append(line.strip())
        elif line.strip() and end == at and (line[0].isspace() or line[0].islower()):
            items[-1] += "\n" + line.strip()
        elif line.strip():
            break
        at += 1
        end = at if line.strip() else end
    if len(items) == 1 and not _introduction(prose).rstrip("*_ ").endswith(":"):
        return None
    return ListBlock((), tuple(items)), end


def _table(lines: Sequence[str], at: int) -> tuple[ListBlock, int] | None:
    """Return the table that begins at a line, and the line after it; None where none begins."""
    for sign in "|\t":
        ruled = sign in lines[at] and _is_rule(lines[at + 1 : at + 2])
        end = at
        while end < len(lines) and _is_row(lines[end], sign, ruled=ruled):
            end += 1
        rows = tuple(line.strip() for line in lines[at:end])
        head = 2 if ruled else 1
        if len(rows) > head:
            return ListBlock(rows[:head], rows[head:]), end
    return None


def _is_rule(lines: Sequence[str]) -> bool:
    return any("--" in line and _OF_A_RULE.issuperset(line.strip()) for line in lines)


def _is_row(line: str, sign: str, *, ruled: bool) -> bool:
    """Return whether a line is a row; without a rule under the head of bars, each begins with one."""
    return sign in line.strip() and (ruled or sign == "\t" or line.lstrip().startswith(sign))


def _introduction(prose: Sequence[str]) -> str:
    """Return the last line of what stands before a list or table, if it introduces that."""
    last = next((line for line in reversed(prose) if line.strip()), "")
    is_right_above = bool(prose) and bool(prose[-1].strip())
    if is_right_above or _HEADING.match(last) or not _ENDED.search(last.rstrip()):
        return last.strip()
    return ""


def _parted(prose: Sequence[str]) -> tuple[str, str]:
    """Return what stands before a list, and its last sentence by itself, if that introduces the list."""
    text = "\n".join(prose).strip()
    if not _introduction(prose):
        return text, ""
    start, end = sentence_places(text)[-1]
    return text[:start].rstrip(), " ".join(text[start:end].split())
