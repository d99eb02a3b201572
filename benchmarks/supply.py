"""Writes the lock with hashes and a bill of materials; reads the licences of what is needed at run time."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"
TORCH = LOCK.with_name("torch.lock")
"""The pin of torch, whose builds differ by machine: it is installed before the rest, without digests."""
PRODUCT = ("app", "local", "formats")
"""Extras that users of the product install; `scale` and `dev` are for clusters and for development."""
_NO_LICENCE = {"", "unknown", "dual license", "other/proprietary license"}
_FREE = re.compile(
    r"(?!.*(gpl|general public))(the )?(apache|mit|bsd|0bsd|[23]-clause bsd|isc|mpl|mozilla public|psf|zlib|"
    r"zpl|python software foundation|bsl|cc0|cnri-python|public.domain|unlicense)(?![a-z]).*",
    re.IGNORECASE,
)
"""Licences that ask for no more than a notice, or for the changed files of the package itself."""
_ALL = re.compile(r"\W*\b(?:AND|OR|and)\b\W*|, (?!Version)")
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s\\;]+)")
_DIGEST = re.compile(r" +--hash=sha256:([0-9a-f]{64})(?: \\)?")


@cache
def closure() -> dict[str, Distribution]:
    """Return what the project needs at run time: normalised name -> what is installed of it.

    The project's own needs are those of pyproject.toml, with the extras of its product: the installed ones
    may be older.

    Raises:
        PackageNotFoundError: something that it needs is not installed.
    """
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    own = project()
    extras = (one for name in PRODUCT for one in own["optional-dependencies"][name])
    left = _named(map(Requirement, [*own["dependencies"], *extras]))
    while left:
        name, extra = left.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            found[name] = distribution(name)
            left += _named(_needs(found[name], extra))
    return dict(sorted(found.items()))


def project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    return dict(tomllib.loads(LOCK.with_name("pyproject.toml").read_text("utf-8"))["project"])


def _named(needed: Iterable[Requirement]) -> list[tuple[str, str]]:
    """Return each package with no extra and with each of the extras that are wanted."""
    return [(canonicalize_name(one.name), extra) for one in needed for extra in ("", *sorted(one.extras))]


def _needs(installed: Distribution, extra: str = "") -> list[Requirement]:
    needed = [Requirement(one) for one in installed.requires or ()]
    return [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]


def licence_of(installed: Distribution) -> str | None:
    """Return the licence that a package declares, as an SPDX expression if it gives one; None: unknown.

    Of a whole licence text the first line counts, and classifiers before both.
    """
    fields = installed.metadata
    classifiers = [one.split(" :: ")[-1] for one in fields.get_all("Classifier") or () if "License ::" in one]
    classified = [one for one in classifiers if one != "OSI Approved"]
    text = "".join(fields.get_all("License") or ()).strip().splitlines()
    declared = (*(fields.get_all("License-Expression") or ()), " OR ".join(classified), *text[:1])
    return next((one.strip() for one in declared if one and one.strip().lower() not in _NO_LICENCE), None)


def is_free(licence: str | None) -> bool:
    """Return whether a product of any licence may depend on what is licensed so.

    One of several to choose from is enough; where all of several hold, and in parentheses, each must be.
    """
    if licence is None:
        return False
    choices = [licence] if "(" in licence and " AND " in licence else licence.split(" OR ")
    return any(all(map(_FREE.fullmatch, _ALL.split(choice.strip()))) for choice in choices)


def read_lock(path: Path = LOCK) -> dict[str, tuple[str, set[str]]]:
    """Return normalised name -> version and sha256 digests of its files."""
    found: dict[str, tuple[str, set[str]]] = {}
    for line in path.read_text("utf-8").splitlines():
        if pin := _PIN.match(line):
            name = canonicalize_name(pin[1])
            found.setdefault(name, (pin[2], set()))
        elif digest := _DIGEST.fullmatch(line):
            found[name][1].add(digest[1])
    return found


def write_lock(path: Path = LOCK) -> None:
    """Give each pin of a lock the digests of all files that the index has of it."""
    heading = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
    before = read_lock(path)
    pins = "".join(f"{name}=={version}\n" for name, (version, _) in before.items())
    options = ("--no-deps", "--generate-hashes", "--no-annotate", "--no-header", "--no-config", "--quiet")
    command = ["uv", "pip", "compile", "-", *options, "--python", sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "listed.txt")
        subprocess.run([*command, "--output-file", str(listed)], input=pins, text=True, check=True)
        found = read_lock(listed)
    entries = [_entry(f"{name}=={version}", digests) for name, (version, digests) in sorted(found.items())]
    path.write_text("\n".join([*heading, *entries]) + "\n", "utf-8")


def _entry(requirement: str, digests: set[str]) -> str:
    if not digests:
        raise ValueError(f"no file of {requirement} is known")
    return " \\\n".join([requirement, *(f"    --hash=sha256:{one}" for one in sorted(digests))])


def bill_of_materials() -> dict[str, Any]:
    """Return what the project needs at run time as a CycloneDX 1.6 document; equal for equal packages."""
    packages = closure()
    own = project()
    root = f"pkg:pypi/{own['name']}@{own['version']}"
    needed = _edges(packages, map(Requirement, own["dependencies"]))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": own["name"],
                "version": own["version"],
                "purl": root,
                "licenses": [{"expression": own["license"]}],
            }
        },
        "components": [_component(one) for one in packages.values()],
        "dependencies": [
            {"ref": root, "dependsOn": needed},
            *({"ref": _purl(one), "dependsOn": _edges(packages, _needs(one))} for one in packages.values()),
        ],
    }


@cache
def _purl(installed: Distribution) -> str:
    return f"pkg:pypi/{canonicalize_name(installed.name)}@{installed.version}"


def _component(installed: Distribution) -> dict[str, Any]:
    expression = next(iter(installed.metadata.get_all("License-Expression") or ()), None)
    licence = licence_of(installed)
    said = [{"expression": expression}] if expression else [{"license": {"name": licence}}] if licence else []
    return {
        "type": "library",
        "bom-ref": _purl(installed),
        "name": installed.name,
        "version": installed.version,
        "purl": _purl(installed),
        "licenses": said,
    }


def _edges(packages: Mapping[str, Distribution], needed: Iterable[Requirement]) -> list[str]:
    return sorted({_purl(packages[name]) for name, _ in _named(needed)})


def main() -> None:
    """Write the lock, or the bill of materials to a file."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("what", choices=("lock", "sbom"))
    reader.add_argument("--to", type=Path, default=Path("sbom.json"))
    given = reader.parse_args()
    if given.what == "lock":
        write_lock()
    else:
        given.to.write_text(json.dumps(bill_of_materials(), indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(given.to)


if __name__ == "__main__":
    try:
        main()
    except PackageNotFoundError as error:
        sys.exit(f"{error}: run `make setup` first")
