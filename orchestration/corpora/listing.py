"""The corpora of a workspace on a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from rag_assay.evals.reporting.display import MISSING, count, several
from rag_assay.orchestration.corpora.facts import CorpusSummary
from rag_assay.orchestration.terminal.cli_errors import console, text
from rag_assay.orchestration.terminal.turn_view import narrow_width

NARROW = 100  # columns below which a corpus is some lines of its own


def show_corpora(found: Sequence[CorpusSummary], selected: str | None) -> None:
    """Print a line a corpus to standard output; where there is no room, three.

    selected: the name of the one that is asked where none is named
    """
    out = console(width=narrow_width())
    if out.width < NARROW:
        for at, one in enumerate(found, 1):
            mark = "*" if one.corpus.name == selected else " "
            out.print(text(f"{mark} {at} {one.corpus.name}", "bold"))
            out.print(text(f"    {sentence_of(one)}"))
            out.print(text(f"    {one.corpus.target}", "dim"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name, right in (
        ("", False),
        ("", True),
        ("corpus", False),
        ("documents", True),
        ("chunks", True),
        ("MB", True),
        ("embedder", False),
        ("built", False),
        ("from", False),
    ):
        table.add_column(
            name, justify="right" if right else "left", overflow="fold", no_wrap=name == "corpus"
        )
    for at, one in enumerate(found, 1):
        at_time = one.built_at.astimezone().strftime("%Y-%m-%d %H:%M") if one.built_at else ""
        gone = "" if one.corpus.is_there else " (not there any more)"
        table.add_row(
            "*" if one.corpus.name == selected else "",
            str(at),
            text(one.corpus.name, "bold"),
            MISSING if one.documents is None else count(one.documents),
            MISSING if one.chunks is None else count(one.chunks),
            MISSING if one.size is None else f"{one.size / 1e6:.1f}",
            text(one.embedder or ""),
            text(at_time if one.is_ready else one.state),
            text(one.corpus.target + gone),
        )
    out.print(table)


def corpora_as_json(found: Sequence[CorpusSummary], selected: str | None) -> str:
    rows: list[dict[str, Any]] = [
        {
            "name": one.corpus.name,
            "selected": one.corpus.name == selected,
            "kind": one.corpus.kind,
            "target": one.corpus.target,
            "target_is_there": one.corpus.is_there,
            "state": one.state,
            "documents": one.documents,
            "chunks": one.chunks,
            "bytes": one.size,
            "embedder": one.embedder,
            "built_at": one.built_at.isoformat() if one.built_at else None,
            "study": one.study,
            "folder": str(one.corpus.folder),
        }
        for one in found
    ]
    return json.dumps(rows, indent=2)


def sentence_of(facts: CorpusSummary) -> str:
    """Say what is in a corpus, in a few words.

    >>> from rag_assay.orchestration.corpora.records import NamedCorpus
    >>> sentence_of(CorpusSummary(NamedCorpus(name="n", target="/t"), documents=2, chunks=9, size=1_500_000))
    '2 documents, 9 chunks, 1.5 MB'
    """
    if not facts.is_ready:
        return facts.state
    parts = [
        several(facts.documents, "document") if facts.documents is not None else "",
        several(facts.chunks, "chunk") if facts.chunks is not None else "",
        f"{facts.size / 1e6:.1f} MB" if facts.size is not None else "",
    ]
    return ", ".join(part for part in parts if part)
