"""A first build begins with a copy only of what an equal one left (`tests/fakes/first_builds.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag_assay.assets.engine.builder import build_keys
from tests.fakes import first_builds, tiny
from tests.fakes.first_builds import FirstBuild
from tests.fakes.tiny import TEXTS
from tests.fakes.town import PLAIN, QUESTIONS, Town

pytestmark = pytest.mark.models


def test_what_every_test_patches_keeps_no_build_from_being_copied(
    town: Town, first_build: FirstBuild
) -> None:
    assert not first_build._is_patched()


class Builds:
    """Builds by tests of one process, each in a folder of its own; counts those that compute."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    def town(self) -> Town:
        self.number += 1
        (folder := self.folder / str(self.number)).mkdir()
        patch = pytest.MonkeyPatch()
        return Town(folder, patch, FirstBuild(self.folder, patch))

    def computes(self, town: Town, home: str = "home", **changes: Any) -> bool:
        texts = changes.pop("texts", TEXTS)
        with pytest.MonkeyPatch.context() as patch:
            ran: list[object] = []
            patch.setattr(tiny, "build_keys", lambda *of: ran.append(of) or build_keys(*of))
            town.build({**PLAIN, **changes}, home, docs=texts)
        assert "leaderboard" in town.built
        town.patch.undo()
        return bool(ran)


def test_only_an_equal_build_of_new_homes_is_copied(
    town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_builds, "_kept", {})
    of = Builds(tmp_path)
    assert of.computes(of.town())
    copied = of.town()
    assert not of.computes(copied)
    copied.build(PLAIN, "home")
    assert not copied.built, "what was copied is up to date"
    assert of.computes(copied, "second"), "a test may compare its homes"
    assert of.computes(of.town(), texts={**TEXTS, "lamp": f"{TEXTS['lamp']} It is red."})
    assert of.computes(of.town(), seed=8)
    (other := of.town()).folder.joinpath("ferry.questions.yaml").write_text(
        QUESTIONS.replace("Who", "And who")
    )
    assert of.computes(other)
    (patched := of.town()).patch.setattr(tiny, "WITHOUT", tiny.WITHOUT)
    assert of.computes(patched)
    (environment := of.town()).patch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert of.computes(environment)
