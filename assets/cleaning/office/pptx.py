"""Presentations: a section a slide, with what its shapes, tables and notes say."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from rag_assay.assets.cleaning.draft import DocumentDraft
from rag_assay.assets.cleaning.office.office_facts import check_package, with_facts
from rag_assay.assets.cleaning.outline import OutlineBuilder
from rag_assay.assets.cleaning.unicode import tidy
from rag_assay.warehouse.extras import require

_DEEPEST = 50  # groups within groups


def clean_pptx(body: bytes) -> DocumentDraft:
    """Extract the text of a presentation, slide by slide: its title, its other shapes, its speaker's notes.

    A slide's title is its section's heading; one without a title is called by its number. Cells of a table
    stand between " | ". `metadata` holds `slides`, how many there are.

    Raises:
        Unusable: encrypted, damaged, a bomb, or without text.
    """
    check_package(body, ".pptx")
    require("pptx", "reading PPTX files")
    import pptx

    presentation = pptx.Presentation(BytesIO(body))
    outline, first = OutlineBuilder(), None
    slides = list(presentation.slides)
    for number, slide in enumerate(slides, 1):
        top = slide.shapes.title
        title = " ".join(tidy(top.text_frame.text).split()) if top is not None else ""
        others = [text for shape in _shapes(slide.shapes) if shape != top for text in _texts(shape)]
        if title:
            outline.begin(title, 1)
            first = first or title
        elif others:
            outline.begin(f"Slide {number}", 1)
        for text in [*others, *_notes(slide)]:
            outline.add(text)
    return with_facts(outline, presentation.core_properties, first, slides=len(slides))


def _shapes(shapes: Any, depth: int = 0) -> Iterator[Any]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _DEEPEST:
            yield from _shapes(shape.shapes, depth + 1)
        else:
            yield shape


def _texts(shape: Any) -> Iterator[str]:
    if getattr(shape, "has_table", False):
        for row in shape.table.rows:
            cells = [" ".join(tidy(cell.text).split()) for cell in row.cells]
            if any(cells):
                yield " | ".join(cells)
    elif getattr(shape, "has_text_frame", False):
        lines = [tidy(part.text) for part in shape.text_frame.paragraphs]
        if any(lines):
            yield "\n".join(filter(None, lines))


def _notes(slide: Any) -> Iterator[str]:
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and (text := tidy(frame.text)):
        yield text
