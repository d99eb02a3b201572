"""The cells that a study names: those that judges and rubrics compare with, and those that people score."""

from __future__ import annotations

from rag_assay.evals.study.imported_study import ImportedStudy
from rag_assay.evals.study.study import Study
from rag_assay.warehouse.suggestions import did_you_mean
from rag_assay.warehouse.validation_errors import Finding
from rag_assay.warehouse.yaml_positions import Place


def unfit_cells(study: Study) -> list[Finding]:
    """Return which of them the study does not have, and whether it leaves people any to score."""
    cells = [cell.key.partition(".")[2] for cell in study.cells()]
    named: list[tuple[Place, str, str]] = []
    for part, those in (("judges", study.judges), ("rubrics", study.rubrics)):
        for name, one in those.items():
            if one.against is not None:
                named.append(((part, name), f"`{name}` compares with the cell", one.against))
    for number, name in enumerate(study.annotation.cells or ()):
        named.append((("annotation", "cells", number), "`annotation` names the cell", name))
    if study.search is not None and study.search.base is not None:
        named.append((("search", "base"), "`search` begins with the cell", study.search.base))
    found = [
        Finding(
            place,
            "unknown_cell",
            f"{text} `{cell}`, which the study does not have; {did_you_mean(cell, cells)}",
        )
        for place, text, cell in named
        if cell not in cells
    ]
    if study.search is not None and isinstance(study, ImportedStudy):
        text = (
            "the answers of this study are there already, and a search would spare nothing: delete `search`"
        )
        found.append(Finding(("search",), "of_built_study", text))
    if study.rubrics and not found and not any(map(study.people_score, study.cells())):
        text = "`annotation` leaves people no cell to score; loosen what it is restricted to"
        found.append(Finding(("annotation",), "no_cell", text))
    return found
