"""A name that is not known, and what to offer in its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from rag_assay.warehouse.errors import InputError

LIKE = 0.7  # how alike two names must be (0 to 1) for one to be offered in place of the other


def near_names(name: str, known: Iterable[str], most: int = 1, like: float = LIKE) -> list[str]:
    """Return the known names that one was probably meant for, the likeliest first; case does not count.

    >>> near_names("NDGC", ["ndcg", "recall"]), near_names("redaer", ["reader", "render"])
    (['ndcg'], ['reader'])
    """
    folded, by_folded = name.lower(), {one.lower(): one for one in known}
    near = get_close_matches(folded, by_folded, n=most + 2, cutoff=like)
    swapped_first = sorted(near, key=lambda one: sorted(one) != sorted(folded))
    return [by_folded[one] for one in swapped_first[:most]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Offer the name that was probably meant, or all that there are.

    >>> did_you_mean("bm52", ["bm25", "dense"])
    'did you mean `bm25`?'
    """
    names = list(known)
    near = near_names(name, names)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(names) or 'none'}"


def unknown(what: str, name: str, known: Iterable[str], where: str) -> str:
    """Say where a name is unknown, and what to offer in its place.

    >>> unknown("source", "blg", ["memos", "blog"], "corpus.sources")
    "corpus.sources: unknown source 'blg'; did you mean `blog`?"
    """
    return f"{where}: unknown {what} {name!r}; {did_you_mean(name, sorted(known))}"


def named_in(written: str, what: str, known: Collection[str], option: str) -> tuple[str, ...]:
    """Return the names that are written with commas between them, each once, in their order.

    >>> named_in("titles, dates,titles", "kind", ["titles", "dates"], "--kinds")
    ('titles', 'dates')
    """
    found = tuple(dict.fromkeys(part.strip() for part in written.split(",") if part.strip()))
    for one in found:
        if one not in known:
            raise InputError(unknown(what, one, known, option))
    if not found:
        raise InputError(f"{option}: name at least one of {', '.join(known)}")
    return found
