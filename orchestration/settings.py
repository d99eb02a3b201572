"""Typed settings from the environment, all with the prefix ASSAY_."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from warehouse.errors import InputError


class Settings(BaseSettings):
    """What the environment says to the commands and to Dagster; an empty variable says nothing.

    home: the one folder that everything is written to
    annotate_password: what the page of `assay annotate` asks for; unless set, it asks for nothing
    alerts_webhook, alerts_secret, alerts_email: who is told of all studies; the secret signs what is posted
    smtp_…: the server that alerts are mailed through
    """

    model_config = SettingsConfigDict(env_prefix="ASSAY_", env_ignore_empty=True, extra="ignore")

    home: Path = Path("var")
    annotate_password: SecretStr | None = None
    alerts_webhook: SecretStr | None = None
    alerts_secret: SecretStr | None = None
    alerts_email: str = ""
    smtp_host: str = ""
    smtp_port: int = 0
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: SecretStr | None = None
    smtp_from: str = ""

    def place(self) -> Path:
        """Return the home as an absolute path, which need not be there.

        Raises:
            InputError: it cannot be used as a path.
        """
        return _absolute(self.home)


QUIET = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "RAGAS_DO_NOT_TRACK": "true",
    "TOKENIZERS_PARALLELISM": "true",
    "DAGSTER_EVENT_BATCH_SIZE": "200",
}
"""Set before anything heavy is imported: no telemetry, no look-ups at start."""

_BEFORE = """\
telemetry:
  enabled: false
nux:
  enabled: false
"""
INSTANCE = f"""\
{_BEFORE}\
retention:
  schedule:
    purge_after_days: {{skipped: 7, success: 90, failure: 90, started: 90}}
  sensor:
    purge_after_days: {{skipped: 1, success: 30, failure: 30, started: 30}}
  auto_materialize:
    purge_after_days: {{skipped: 1, success: 30, failure: 30, started: 30}}
"""
"""What `dagster.yaml` says: nothing is sent anywhere; sensors that look each minute fill no disk."""
OUTDATED = frozenset({_BEFORE})  # what earlier versions wrote; what a person wrote is left alone


def prepare(settings: Settings | None = None) -> Path:
    """Make the home folder and the Dagster instance's folder, set the quiet environment; return the home.

    Raises:
        InputError: the home cannot be made or written to.
    """
    root = (settings or Settings()).place()
    os.environ["ASSAY_HOME"] = str(root)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    dagster_home = root / "dagster"
    instance = dagster_home / "dagster.yaml"
    try:
        dagster_home.mkdir(parents=True, exist_ok=True)
        if not instance.exists() or instance.read_text() in OUTDATED:
            instance.write_text(INSTANCE)
    except OSError as error:
        raise InputError(
            f"{root} cannot be written to ({error.strerror}); everything is stored there: "
            "let ASSAY_HOME name a folder that can"
        ) from error
    os.environ["DAGSTER_HOME"] = str(dagster_home)
    return root


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # the home of a user that there is not, links in a circle
        raise InputError(f"ASSAY_HOME: {str(path)!r} cannot be used as a path: {error}") from error


if __name__ == "__main__":
    prepare()
