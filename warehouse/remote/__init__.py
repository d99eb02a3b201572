"""A workspace on object storage: what lies there, and the scratch folder in which stages use it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rag_assay.warehouse.paths import REMOTE, Home, remote_url, scratch_of

if TYPE_CHECKING:
    from rag_assay.warehouse.remote.artifacts import RemoteArtifacts
    from rag_assay.warehouse.remote.mirror import Mirror
    from rag_assay.warehouse.remote.store import RemoteStore


@lru_cache(maxsize=8)
def _opened(url: str) -> RemoteStore:
    from rag_assay.warehouse.remote.store import RemoteStore

    return RemoteStore(url)


def artifacts_of(home: Home) -> RemoteArtifacts | None:
    """One object a workspace in a process, so that what it has listed serves all."""
    url = remote_url(home.root)
    return _artifacts(url, home) if url else None


@lru_cache(maxsize=8)
def _artifacts(url: str, home: Home) -> RemoteArtifacts:
    from rag_assay.warehouse.remote.artifacts import RemoteArtifacts

    return RemoteArtifacts(home, _opened(url))


def mirror_of(home: Home) -> Mirror | None:
    url = remote_url(home.root)
    return _mirror(url, home) if url else None


def mirror_over(path: Path) -> Mirror | None:
    url = os.environ.get(REMOTE)
    root = scratch_of(url) if url else None
    return mirror_of(Home(root)) if root and root in path.parents else None


@lru_cache(maxsize=8)
def _mirror(url: str, home: Home) -> Mirror:
    from rag_assay.warehouse.remote.mirror import Mirror

    return Mirror(home, _opened(url))
