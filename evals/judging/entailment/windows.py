"""Cuts a premise that is too long for a model into windows of whole sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Count = Callable[[Sequence[str]], list[int]]
"""Texts -> how many tokens each has, special tokens not counted."""


def windows(lead: str, texts: Sequence[str], room: int, count: Count) -> list[str]:
    """Return texts one after another, in as few windows as have room for them.

    Each window begins with the last text of the one before, if there is room for it beside the next; a text
    for which a whole window is too small is cut between words.

    Args:
        lead: begins each window, unless it would take more than half of it; may be empty.
        texts: sentences, in their order.
        room: tokens of a window.
        count: as the model's tokenizer has it.

    >>> words = lambda texts: [len(text.split()) for text in texts]
    >>> windows("q", ["a b c", "d e", "f g", "h"], 5, words)
    ['q a b c', 'q d e f g', 'q f g h']
    """
    [of_lead, *tokens] = count([lead, *texts])
    if of_lead > room // 2:
        lead, of_lead = "", 0
    room -= of_lead
    units = [
        unit
        for text, n in zip(texts, tokens, strict=True)
        for unit in ([(text, n)] if n <= room else _cut(text, room, count))
    ]
    found, first = [], 0
    while first < len(units):
        end = _end(units, first, room)
        found.append(" ".join([lead, *(text for text, _ in units[first:end])]).strip())
        if end == len(units):
            break
        # The last one again, unless the next window would then be no longer than that.
        first = end - 1 if end - 1 > first and _end(units, end - 1, room) > end else end
    return found


def _end(units: Sequence[tuple[str, int]], first: int, room: int) -> int:
    """Return the unit after the last one that fits behind some first one."""
    end, total = first + 1, units[first][1]
    while end < len(units) and total + units[end][1] <= room:
        total += units[end][1]
        end += 1
    return end


def _cut(text: str, room: int, count: Count) -> Iterator[tuple[str, int]]:
    """Yield pieces of a text that fit, with their tokens; a word that is too long is cut, too.

    No tokenizer makes more than four tokens of a character: a byte of it each.
    """
    longest = max(1, room // 4)
    words = [
        word[at : at + longest] if len(word) > longest else word
        for word in text.split()
        for at in range(0, len(word), longest if len(word) > longest else len(word))
    ]
    units = list(zip(words, count(words), strict=True))
    first = 0
    while first < len(units):
        end = _end(units, first, room)
        yield " ".join(word for word, _ in units[first:end]), sum(n for _, n in units[first:end])
        first = end
