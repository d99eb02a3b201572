"""Builds artifacts of a home at a URL: `python -m tests.fakes.remote_builder NAME IDENTITY…`."""

from __future__ import annotations

import sys

from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.attempts import attempt
from rag_assay.warehouse.paths import home


def main(name: str, *identities: str) -> None:
    """Build each identity, with files that say who built it."""
    store = ArtifactStore(home())
    for identity in identities:
        with attempt(store.place("documents", identity), resumes=False) as folder:
            for file in ("a", "b", "c"):
                (folder / file).write_text(f"{name} {identity} {file}" * 1000)
            store.commit_once(Artifact("documents", f"key of {identity}", identity, name), folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
