"""Errors of Dagster's log of runs in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.redaction import one_line

# By their names: sqlalchemy takes long to import, and dagster-postgres is for instances on a server.
_DATABASE, _POSTGRES = "DBAPIError", "DagsterPostgresException"


def _kinds(error: BaseException) -> set[str]:
    return {one.__name__ for one in type(error).__mro__}


def is_of_log(error: BaseException) -> bool:
    return bool({_DATABASE, _POSTGRES} & _kinds(error))


@contextmanager
def plain_failures(folder: Path) -> Iterator[None]:
    """Say in a sentence that Dagster's log in ``folder`` cannot be used."""
    try:
        yield
    except Exception as error:
        if not is_of_log(error):
            raise
        if _DATABASE not in _kinds(error):
            reason = one_line(str(getattr(error.__cause__, "orig", None) or error))
            raise AssayError(
                f"Dagster's database of runs cannot be used ({reason}). Start it, and run again: "
                "results that were stored are kept"
            ) from error
        raise AssayError(
            f"{folder}: Dagster's log of runs cannot be used ({getattr(error, 'orig', error)}). See that the "
            "disk has room; if that does not help, move the folder away and run again: only the UI's history "
            "is in it"
        ) from error
