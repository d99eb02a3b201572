"""Dagster's migrations read once in a process, which opens many instances."""

from contextlib import suppress

from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError

SCRIPTS = "dagster:_core/storage/alembic"


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
    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    with suppress(CommandError):  # another Dagster has them elsewhere: each fork reads them
        ScriptDirectory.from_config(config).get_current_head()
