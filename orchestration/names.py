"""Names that Dagster takes, of names that studies and sources have."""

from __future__ import annotations

from collections.abc import Iterable

from rag_assay.warehouse.identity import digest

WORKSPACE_TAG = "assay/workspace"
"""Run tag: the host and folder of the workspace in which a process of ours does the run."""


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """Return a name that Dagster takes for each name: no hyphens and dots, and no two alike.

    >>> found = identifiers(["my_news", "my-news", "town"])
    >>> (found["my-news"], found["my_news"][:8], len(found["my_news"]), found["town"])
    ('my_news', 'my_news_', 14, 'town')
    """
    found: dict[str, str] = {}
    for name in sorted(names):
        identifier = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        taken = identifier in found.values()
        found[name] = f"{identifier}_{digest(name)[:6]}" if taken else identifier
    return found


def job_name(identifier: str) -> str:
    return f"study_{identifier}"
