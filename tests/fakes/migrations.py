"""Dagster's migrations read once in a process, which opens many instances."""

from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.sql import get_alembic_config


def read_migrations_once() -> None:
    """Read the migrations of Dagster's databases once, instead of for each database that is opened.

    There are a hundred scripts, half the time that it takes to open an instance; its three storages share
    them.
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


def read_migrations() -> None:
    """Read them now, for the forks of this process."""
    read_migrations_once()
    ScriptDirectory.from_config(get_alembic_config(sqlite_run_storage.__file__)).get_current_head()
