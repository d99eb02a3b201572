"""The options by which a study is built in runs that Dagster launches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rag_assay.warehouse.errors import InputError

if TYPE_CHECKING:
    from rag_assay.orchestration.runs.distribution import Spread

PLACES = ("here", "dagster")

OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="here|dagster",
        help="Build in this process, or in Dagster runs (processes, Celery, Kubernetes).",
    ),
]
PartitionsOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="With --on dagster: partitions of a run, at most.")
]
WorkersOption = Annotated[
    int, typer.Option(min=1, metavar="N", help="With --on dagster: concurrent runs that share a budget.")
]


def spread_of(on: str, partitions: int, workers: int) -> Spread | None:
    """Return how runs are spread; None: everything is built in this process.

    Raises:
        InputError: there is no such place.
    """
    if on not in PLACES:
        raise InputError(f"--on {on}: it can be {' or '.join(PLACES)}")
    if on == "here":
        return None
    from rag_assay.orchestration.runs.distribution import Spread

    return Spread(partitions, workers)
