"""Whether what is stored under a key is what the key means now."""

from __future__ import annotations

from rag_assay.assets.engine.stage import Stage
from rag_assay.warehouse.artifacts import ArtifactStore
from rag_assay.warehouse.errors import AssayError


def is_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether a key's artifact was built by the recipes that its name has now, from current inputs.

    True also where nothing is stored, or nothing is known of how: an earlier version did not keep that.
    """
    return is_by_recipe_of_now(stage, key, store) and is_of_contents_of_now(stage, key, store)


def is_by_recipe_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether the recipes of a key are those that it was built by; True where they are not known."""
    artifact = store.current(stage.name, key)
    known = artifact.meta.get("recipes") if artifact else None
    if known is None:
        return True
    now = list(stage.recipes(key).values())
    return bool(known[: len(now)] == now)  # those of a leaderboard go on with the cells that were not run


def is_of_contents_of_now(stage: Stage, key: str, store: ArtifactStore) -> bool:
    """Return whether a key was built from what it needs as that is now; True where that is not known.

    It was not where a study asks other questions, or where another study has built anew what both share.
    """
    artifact = store.current(stage.name, key)
    known = artifact.meta.get("made_of") if artifact else None
    try:
        return known is None or known == stage.made_of(key, store)
    except AssayError:  # what it needs now was never built
        return False
