"""Typed settings from the environment, all with the prefix ASSAY_."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.paths import Home, is_url, project_folder, use_remote_home

PREFIX = "ASSAY_"


class Settings(BaseModel):
    """What the environment says to the commands and to Dagster; an empty variable says nothing.

    home: the workspace, which everything is written to, or its URL on object storage;
        default: `var` in the project folder
    ui_password: what the app asks for; unless set, it asks for nothing
    alerts_webhook, alerts_secret, alerts_email: who is told of all studies; the secret signs what is posted
    smtp_…: the server that alerts are mailed through
    """

    model_config = ConfigDict(extra="ignore")

    home: Path | str = Field(default_factory=lambda: project_folder() / "var")
    ui_password: SecretStr | None = None
    alerts_webhook: SecretStr | None = None
    alerts_secret: SecretStr | None = None
    alerts_email: str = ""
    smtp_host: str = ""
    smtp_port: int = 0
    smtp_security: Literal["starttls", "tls", "none"] = "starttls"
    smtp_user: str = ""
    smtp_password: SecretStr | None = None
    smtp_from: str = ""

    def __init__(self, **given: object) -> None:
        said = {
            name: value
            for name in type(self).model_fields
            if (value := os.environ.get(PREFIX + name.upper()))
        }
        super().__init__(**{**said, **given})

    def place(self) -> Path:
        """Return the home as an absolute path, which need not be there; of a URL, its scratch folder."""
        return use_remote_home(str(self.home)) if is_url(str(self.home)) else _absolute(Path(self.home))


def secret_of(one: SecretStr | None) -> str:
    return one.get_secret_value() if one else ""


QUIET = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "RAGAS_DO_NOT_TRACK": "true",
    "TOKENIZERS_PARALLELISM": "true",
    "DAGSTER_EVENT_BATCH_SIZE": "200",
}
"""Set before anything heavy is imported: no telemetry, no look-ups at start."""

INSTANCE = {
    "storage": """\
storage:
  custom:
    module: rag_assay.orchestration.event_log
    class: Storage
    config: {base_dir: {env: DAGSTER_HOME}}
""",
    "telemetry": "telemetry:\n  enabled: false\n",
    "nux": "nux:\n  enabled: false\n",
    "retention": """\
retention:  # sensors that look each minute fill no disk
  schedule:
    purge_after_days: {skipped: 7, success: 90, failure: 90, started: 90}
  sensor:
    purge_after_days: {skipped: 1, success: 30, failure: 30, started: 30}
  auto_materialize:
    purge_after_days: {skipped: 1, success: 30, failure: 30, started: 30}
""",
    "concurrency": """\
concurrency:
  pools:
    granularity: run  # a run that needs a full pool waits in the queue
    default_limit: 1  # pools local_model and duckdb; another number: in the UI, Deployment > Concurrency
""",
    "run_retries": """\
run_retries:  # of runs whose process crashed or was killed, and of no others
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
""",
}
"""The sections of Dagster's `dagster.yaml`, by their names; one that a person has written stays as it is."""
_OURS = "ASSAY_DAGSTER_HOME"
"""Names the `DAGSTER_HOME` that we have set, for the processes that we start."""
_CLASHING = {
    "concurrency": {"run_queue", "run_coordinator"},
    "storage": {"run_storage", "event_log_storage", "schedule_storage"},
}
"""Sections that Dagster may refuse beside one of ours: where a person has them, ours is left out."""


def use_workspace(settings: Settings) -> Path:
    """Let this process work in a workspace, quietly; return its folder."""
    root = settings.place()
    os.environ["ASSAY_HOME"] = str(root)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    return root


def prepare(settings: Settings | None = None) -> Path:
    """Make the workspace, and a Dagster instance unless `DAGSTER_HOME` is the user's; return its path."""
    root = use_workspace(settings or Settings())
    if _given_instance(root) is not None:
        return root
    dagster_home = root / "dagster"
    instance = dagster_home / "dagster.yaml"
    try:
        dagster_home.mkdir(parents=True, exist_ok=True)
        _complete(instance)
    except OSError as error:
        raise InputError(
            f"{root} cannot be written to ({error.strerror}); everything is stored there: "
            "let ASSAY_HOME name a folder that can"
        ) from error
    os.environ["DAGSTER_HOME"] = os.environ[_OURS] = str(dagster_home)
    return root


def instance_folder(home: Home) -> Path:
    return _given_instance(home.root) or home.dagster


def _given_instance(root: Path) -> Path | None:
    """Return the `DAGSTER_HOME` that a person has set; None: none, or only we have."""
    named = os.environ.get("DAGSTER_HOME")
    if not named or named == os.environ.get(_OURS):
        return None
    folder = _absolute(Path(named))
    if folder == root / "dagster":
        return None
    if not folder.is_dir():
        raise InputError(f"DAGSTER_HOME: {named} is not a folder; create it, or unset DAGSTER_HOME")
    root.mkdir(parents=True, exist_ok=True)
    return folder


def _complete(path: Path) -> None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = text.splitlines()
    there = {found[1] for line in lines if (found := re.match(r"""["']?(\w+)["']?\s*:""", line))}
    if text.strip() and not there:
        return  # not written as a block: its author knows what is in it
    lacking = [
        section
        for name, section in INSTANCE.items()
        if name not in there and not _CLASHING.get(name, set()) & there
    ]
    if lacking:
        new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        new.write_text("".join([*(f"{line}\n" for line in lines), *lacking]), encoding="utf-8")
        new.replace(path)


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError) as error:  # the home of a user that there is not, links in a circle
        raise InputError(f"ASSAY_HOME: {str(path)!r} cannot be used as a path: {error}") from error


if __name__ == "__main__":
    prepare()
