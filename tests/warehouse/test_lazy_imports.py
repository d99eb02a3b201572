"""A library that is imported lazily is the library, as soon as something of it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

from rag_assay.warehouse.lazy_imports import import_lazily, is_put_off

PACKAGE = """
import time
import acme_lazy.inner
from acme_lazy.inner import AT, TWO
ONE = 1
time.sleep(0.05)
LAST = TWO + ONE
def __getattr__(name):
    if name == "late":
        return LAST
    raise AttributeError(name)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "acme_lazy"
    folder.mkdir()
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "inner.py").write_text("import acme_lazy as whole\nTWO = 2\nAT = lambda: whole.ONE")
    (folder / "other.py").write_text("import acme_lazy\nFOUND = acme_lazy.LAST")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("acme_lazy", "acme_lazy.inner", "acme_lazy.other"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type] -- so that it is restored
        del sys.modules[name]
    import_lazily("acme_lazy", "acme_absent")
    return folder


def test_a_package_is_executed_at_its_first_use(package: Path) -> None:
    whole, again = import_module("acme_lazy"), import_module("acme_lazy")
    assert whole is again is sys.modules["acme_lazy"]
    assert "ONE" not in vars(whole)
    assert is_put_off("acme_lazy")
    assert "acme_absent" not in sys.modules
    assert (whole.LAST, whole.late, whole.inner.AT()) == (3, 3, 1)
    with pytest.raises(AttributeError):
        _ = whole.nothing
    import_lazily("acme_lazy")
    assert import_module("acme_lazy").LAST == 3, "what is imported stays"
    assert not any(map(is_put_off, ("acme_lazy", "acme_absent")))


def test_a_part_of_it_is_imported_after_it(package: Path) -> None:
    assert import_module("acme_lazy.other").FOUND == 3


def test_a_part_that_it_imports_itself_is_executed_once(package: Path) -> None:
    """Else a library has two classes of an error, and `except` misses one."""
    part = import_module("acme_lazy.inner")
    whole = import_module("acme_lazy")
    assert whole.inner is part is sys.modules["acme_lazy.inner"]
    assert whole.AT is part.AT
    assert part.__spec__ is not None
    assert part.__spec__.origin == str(package / "inner.py")


def test_threads_wait_for_it(package: Path) -> None:
    whole = import_module("acme_lazy")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: whole.LAST, range(8))) == {3}


def test_what_is_wrong_with_it_is_told_at_each_use(package: Path) -> None:
    (package / "inner.py").write_text("raise ImportError('no such library')")
    whole = import_module("acme_lazy")
    for _ in range(2):
        with pytest.raises(ImportError, match="no such library"):
            _ = whole.LAST


def test_a_lazy_part_leaves_its_package_alone_until_it_is_used(package: Path) -> None:
    import_lazily("acme_lazy.other", "acme_lazy.absent", "json.tool")
    part = import_module("acme_lazy.other")
    assert "ONE" not in vars(sys.modules["acme_lazy"])
    assert "acme_lazy.absent" not in sys.modules
    assert part.FOUND == 3
    assert sys.modules["acme_lazy"].other is part is sys.modules["acme_lazy.other"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [["list"], ["check", "demo"]])
def test_a_look_at_studies_needs_no_numbers(command: list[str], tmp_path: Path) -> None:
    code = (
        "import sys; from rag_assay.orchestration import start\n"
        "try: start.main()\n"
        "finally: print([type(sys.modules[one]).__name__ for one in ('numpy', 'polars', 'httpx')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        env={**os.environ, "ASSAY_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == str(["_LazyModule"] * 3)
