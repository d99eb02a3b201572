"""The code location of a workspace: the definitions of its studies."""

from __future__ import annotations

from functools import lru_cache

import dagster as dg

from rag_assay.orchestration.collection import collect_seldom
from rag_assay.orchestration.settings import prepare


@dg.definitions
def defs() -> dg.Definitions:
    """Return the definitions of the studies of this code location, for the Dagster UI."""
    return _current_definitions()


def __getattr__(name: str) -> dg.Definitions:
    """Return the current definitions under any name `defs_…`, by which a driver has them loaded again.

    A worker keeps what it has loaded of a module and an attribute, so that studies that were changed since
    need another attribute.
    """
    if not name.startswith("defs_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _loaded(name)


@lru_cache(maxsize=4)
def _loaded(_name: str) -> dg.Definitions:
    return _current_definitions()


def _current_definitions() -> dg.Definitions:
    """Return the definitions of the studies that were run or imported, and of those in `ASSAY_STUDIES`.

    Where there are none, the demo's: the other studies that come with the project are there once they were
    run.
    """
    prepare()
    collect_seldom()  # before the imports, and in a process that is only for this
    from rag_assay.assets.engine.submission import current_code
    from rag_assay.evals.study.run_studies import own_studies
    from rag_assay.evals.successive_halving.records import narrow_study
    from rag_assay.orchestration.study_definitions import definitions_of
    from rag_assay.warehouse.paths import home

    current_code()  # so that it is the digest of the code that is in memory
    studies = own_studies(home()).studies.values()
    found = definitions_of([narrow_study(one, home()) for one in studies])
    return dg.Definitions.merge(found, dg.Definitions(executor=dg.in_process_executor))
