"""Dagster's migrations read once in a process, which opens many instances."""

from alembic.config import Config
from alembic.script import ScriptDirectory


def read_migrations_once() -> None:
    """Read the migrations of Dagster's databases once, instead of for each database that is opened.

    There are a hundred scripts, half the time that it takes to open an instance.
    """
    if not isinstance(vars(ScriptDirectory)["from_config"], classmethod):
        return  # it does already
    read, known = ScriptDirectory.from_config, dict[tuple[str | None, str], ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        place = (config.config_file_name, str(config.get_main_option("script_location")))
        if place not in known:
            known[place] = read(config)
        return known[place]

    ScriptDirectory.from_config = staticmethod(from_config)  # type: ignore[method-assign]
