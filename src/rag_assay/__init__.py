"""Measures which chunking, embedding, retriever and model answers best on your own documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_assay.orchestration.api import LoadedStudy as Study
    from rag_assay.orchestration.api import OpenedPipeline as Pipeline
    from rag_assay.orchestration.api import RunFailedError, evaluate, open
    from rag_assay.orchestration.api import StudyResult as Result
    from rag_assay.orchestration.component import StudyComponent, build_definitions
    from rag_assay.orchestration.resources import Crawler, ModelGateway, Models, Workspace
    from rag_assay.warehouse.errors import InputError

_PLACES = {
    "Crawler": "resources.Crawler",
    "InputError": "api.InputError",
    "ModelGateway": "resources.ModelGateway",
    "Models": "resources.Models",
    "Pipeline": "api.OpenedPipeline",
    "Result": "api.StudyResult",
    "RunFailedError": "api.RunFailedError",
    "Study": "api.LoadedStudy",
    "StudyComponent": "component.StudyComponent",
    "Workspace": "resources.Workspace",
    "build_definitions": "component.build_definitions",
    "evaluate": "api.evaluate",
    "open": "api.open",
}
__all__ = [
    "Crawler",
    "InputError",
    "ModelGateway",
    "Models",
    "Pipeline",
    "Result",
    "RunFailedError",
    "Study",
    "StudyComponent",
    "Workspace",
    "build_definitions",
    "evaluate",
    "open",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: `import rag_assay` loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, name = _PLACES[name].partition(".")
    return getattr(import_module(f"{__name__}.orchestration.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
