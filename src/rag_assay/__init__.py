"""Measures which chunking, embedding, retriever and model answers best on your own documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_assay.orchestration.component import StudyComponent, build_definitions
    from rag_assay.orchestration.resources import Crawler, ModelGateway, Models, Workspace

__all__ = ["Crawler", "ModelGateway", "Models", "StudyComponent", "Workspace", "build_definitions"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: `import rag_assay` loads nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = "component" if name in {"StudyComponent", "build_definitions"} else "resources"
    return getattr(import_module(f"{__name__}.orchestration.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
