"""What Dagster shows of a key that was materialized, and of its asset: numbers, rows, plots, columns."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import dagster as dg

from rag_assay.assets.engine.stage import BuildContext, KeyOutcome, Stage
from rag_assay.assets.engine.table import preview_table
from rag_assay.warehouse.artifacts import Artifact
from rag_assay.warehouse.column_notes import notes_of
from rag_assay.warehouse.errors import CorruptFileError

UNSHOWN = frozenset({"checks", "recipes", "made_of", "source", "by_cell", "inputs", "sha256", "cut_by"})
"""What an artifact keeps for later builds, which says nothing to people."""
MEANS = 12  # means that are shown as numbers


def key_metadata(stage: Stage, outcome: KeyOutcome, work: BuildContext) -> dict[str, Any]:
    """Return what is shown of a key that ended well; numbers stay numbers, so that the UI plots them."""
    artifact = outcome.artifact
    assert artifact is not None  # noqa: S101 -- only called for stored keys
    shown: dict[str, Any] = {
        "identity": artifact.identity,
        "computed": outcome.computed,
        "build_seconds": round(outcome.seconds, 3),
        **_of_table(stage, artifact, work),
    }
    for name, value in artifact.meta.items():
        if name in UNSHOWN or value is None:
            continue
        if name == "preview":
            shown[name] = dg.MetadataValue.md(value)
        elif name == "means":
            shown |= {f"mean {metric}": float(mean) for metric, mean in list(value.items())[:MEANS]}
        else:
            shown[name] = dg.MetadataValue.json(value) if isinstance(value, dict | list) else value
    if stage.counted:
        shown["dagster/row_count"] = artifact.meta.get(stage.counted)
    for name, path in stage.links(artifact.key, work.home).items():
        shown[name] = dg.MetadataValue.path(path)
    return shown


def _of_table(stage: Stage, artifact: Artifact, work: BuildContext) -> dict[str, Any]:
    """Return number of rows, preview and plots; nothing of a file that cannot be read: its reader says so."""
    if stage.table is None:
        return {}
    with suppress(CorruptFileError):
        found = preview_table(stage.table, stage.table_path(artifact, work.store))
        markdown = {name: dg.MetadataValue.md(text) for name, text in found.markdown.items()}
        return {"dagster/row_count": found.rows, **markdown}
    return {}


def asset_metadata(stage: Stage) -> dict[str, Any]:
    """Return what is shown of an asset whatever its partition: the columns of its rows."""
    if stage.table is None:
        return {}
    notes = notes_of(stage.table.schema)
    columns = [
        dg.TableColumn(name, str(kind), description=notes.get(name))
        for name, kind in stage.table.schema.items()
    ]
    return {"dagster/column_schema": dg.TableSchema(columns)}
