"""Documents for tests of made questions."""

from __future__ import annotations

from rag_assay.evals.question_generation.texts import SourceText

PILOTS = """\
# The pilots of Port Ellery

Fourteen pilots work here, and eleven of them told us how they do it. They board beyond the outer buoy.

## Night passages of large ships

Nobody passes the narrows at night without two pilots, one of whom watches the tide board.

## Introduction

This part says what the rest of it is about, in some words of its own.

## Rotas

A turn lasts a week, from Tuesday to Tuesday, and nobody has two turns in a row. A fairway is the deep channel
in the middle of the harbour. The pilot station was opened on 3 May 1987 by the harbour master.
"""


def text(
    body: str, title: str = "", name: str = "a.md", language: str | None = None, source: str = "s"
) -> SourceText:
    return SourceText(f"{source}:{name}", source, name, title, body, language)
