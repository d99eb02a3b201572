"""The pages of the site that are written from the code."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hooks", REPOSITORY / "docs" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks
