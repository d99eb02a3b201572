"""Typed settings from the environment, all with the prefix ASSAY_."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What the environment says.

    home: the one folder that everything is written to
    studies: a folder of study files to use instead of those that come with the project
    host, port: where the Dagster UI listens; loopback unless somebody decides otherwise
    """

    model_config = SettingsConfigDict(env_prefix="ASSAY_", extra="ignore")

    home: Path = Path("var")
    studies: Path | None = None
    host: str = "127.0.0.1"
    port: int = 3000


QUIET = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "RAGAS_DO_NOT_TRACK": "true",
    "TOKENIZERS_PARALLELISM": "true",
    "DAGSTER_EVENT_BATCH_SIZE": "200",
}
"""Set before anything heavy is imported: no telemetry, no look-ups at start."""

INSTANCE = """\
telemetry:
  enabled: false
nux:
  enabled: false
"""


def prepare(settings: Settings | None = None) -> Path:
    """Make the home folder and the Dagster instance's folder, set the quiet environment; return the home."""
    root = (settings or Settings()).home.expanduser().resolve()
    os.environ["ASSAY_HOME"] = str(root)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    dagster_home = root / "dagster"
    dagster_home.mkdir(parents=True, exist_ok=True)
    instance = dagster_home / "dagster.yaml"
    if not instance.exists():
        instance.write_text(INSTANCE)
    os.environ["DAGSTER_HOME"] = str(dagster_home)
    return root


if __name__ == "__main__":
    prepare()
