"""Databases of Dagster's instances: a process reads their migrations and makes their tables once."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import wraps
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError

SCRIPTS = "dagster:_core/storage/alembic"


def read_migrations_once() -> None:
    """Read the migrations of Dagster once, and let new instances begin with copies of empty databases.

    There are a hundred scripts, which the three storages of an instance share. With them at hand, its tables
    still take 0.25 s of CPU, and a copy of their files 0.01 s.
    """
    if not isinstance(vars(ScriptDirectory)["from_config"], classmethod):
        return  # it does already
    read, known = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in known:
            known[place] = read(config)
        return known[place]

    ScriptDirectory.from_config = staticmethod(from_config)  # type: ignore[method-assign]
    if "rag_assay.orchestration.event_log" in sys.modules:  # else no test opens an instance
        _begin_with_tables()


def read_migrations() -> None:
    """Read them now, for the forks of this process."""
    read_migrations_once()
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    with suppress(CommandError):  # another Dagster has them elsewhere: each fork reads them
        ScriptDirectory.from_config(config).get_current_head()


def begin_with(path: Path, content: bytes) -> None:
    """Write a file that is not there, whole; another thread or process may be first."""
    if not path.exists():
        with suppress(OSError):  # one was, or there is no room: as without
            path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile(dir=path.parent, prefix=".new-") as new:
                new.write(content)
                new.flush()
                os.link(new.name, path)


def _begin_with_tables() -> None:
    from rag_assay.orchestration.event_log import DagsterSqliteStorage, Storage

    with TemporaryDirectory() as folder:
        Storage(folder).dispose()
        made = {path.relative_to(folder): path.read_bytes() for path in Path(folder).rglob("*.db")}
    opened = DagsterSqliteStorage.__init__

    @wraps(opened)
    def begun(self: DagsterSqliteStorage, base_dir: str, inst_data: Any = None) -> None:
        for path, content in made.items():
            begin_with(Path(base_dir) / path, content)
        opened(self, base_dir, inst_data)

    DagsterSqliteStorage.__init__ = begun  # type: ignore[method-assign]
