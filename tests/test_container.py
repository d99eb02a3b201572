"""The image and the services of `docker compose`: no docker is needed to read what they do."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]


def _instructions() -> list[tuple[str, str]]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(one, rest) for one, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def _services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return found["services"]


def test_the_image_is_pinned_has_no_root_and_keeps_the_layers_of_packages() -> None:
    found = _instructions()
    bases = [rest for name, rest in found if name == "FROM"]
    assert bases == ["python:${PYTHON} AS build", "python:${PYTHON}"]
    python = dict(found)["ARG"].removeprefix("PYTHON=")
    assert re.fullmatch(r"3\.11\.\d+-slim-\w+", python), "a version that stays the same"
    users = [rest for name, rest in found if name == "USER"]
    assert users == ["10001:10001"]
    assert [name for name, _ in found[found.index(("USER", users[0])) :] if name == "RUN"] == []
    copies = [at for at, (name, rest) in enumerate(found) if (name, rest) == ("COPY", ". .")]
    packages = [at for at, (name, rest) in enumerate(found) if name == "RUN" and ".lock" in rest]
    assert [at < copies[0] for at in packages] == [True, True, True, False], "code is copied after packages"


def test_the_image_installs_extras_that_there_are_by_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (install,) = [rest for _, rest in _instructions() if "-r pyproject.toml" in rest]
    extras = re.findall(r"--extra (\w+)", install)
    assert set(extras) <= project["optional-dependencies"].keys() - {"dev"}
    assert "--constraints requirements.lock" in install


def test_the_context_of_the_image_is_what_the_wheel_is_built_of() -> None:
    """The last rule that fits decides, as for docker."""
    rules = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout

    def is_sent(name: str) -> bool:
        sent = True
        for rule in rules:
            pattern = rule.removeprefix("!").removeprefix("**/")
            if any(
                fnmatch(part, pattern)
                for part in (name.split("/") if "**/" in rule else [name.split("/", maxsplit=1)[0]])
            ):
                sent = rule.startswith("!")
        return sent

    sent = {name.split("/")[0] for name in tracked.splitlines() if is_sent(name)}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {name.split("/")[0] for name in build["only-include"]}
    assert sent == needed | {"pyproject.toml", "requirements.lock", "torch.lock", "README.md", "LICENSE"}
    assert not any(
        map(is_sent, ("var/assay.duckdb", ".git/config", ".env", "evals/.env", "tests/conftest.py"))
    )


def test_services_are_published_on_this_machine_only_and_hold_no_secret() -> None:
    services = _services()
    assert set(services) == {"app", "dagster"}
    for name, service in services.items():
        assert service["ports"], name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert service["cap_drop"] == ["ALL"]
        assert "assay:/data" in service["volumes"], "all share one workspace"
        secrets = {
            key: value for key, value in service["environment"].items() if re.search("KEY|PASS|TOKEN", key)
        }
        assert secrets
        assert all(value.startswith(f"${{{key}:") for key, value in secrets.items()), "of the environment"
    assert ":?" in services["app"]["environment"]["ASSAY_UI_PASSWORD"], "it does not start without"


def test_commands_of_the_services_are_commands_of_ours() -> None:
    services = _services()
    arguments = services["app"]["command"]
    port = services["app"]["ports"][0].rpartition(":")[2]
    assert arguments == ["ui", "--host", "0.0.0.0", "--port", port]  # noqa: S104 -- inside the container
    (script,) = services["dagster"]["command"]
    modules = re.findall(r"-m (rag_assay[\w.]+)", script)
    assert len(modules) == 2
    for module in modules:
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        subprocess.run([sys.executable, "-c", code], check=True)
    assert f"-p {services['dagster']['ports'][0].rpartition(':')[2]} " in script
