"""Paths of everything that is stored, below the workspace: `ASSAY_HOME`, default `var` of the project."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.identity import digest

REMOTE = "ASSAY_REMOTE"
SCRATCH = "ASSAY_SCRATCH"
SCHEMES = frozenset({"s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "file"})
_MARK = ".remote"  # in a scratch folder: the URL of which it is the scratch


def is_url(place: str) -> bool:
    """Return whether a workspace is named by a URL.

    >>> is_url("s3://bucket/prefix"), is_url("var"), is_url("C:/home")
    (True, False, False)
    """
    return "://" in place


def check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise InputError(
            f"ASSAY_HOME: a workspace cannot be at {parts.scheme}://…; it can at s3://bucket/prefix, "
            "gs://bucket/prefix, az://account/container/prefix, file:///folder, or in a folder"
        )
    if parts.username or parts.password or parts.query:
        raise InputError("ASSAY_HOME: the URL holds a name, a password or a query; put keys into AWS_…")
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise InputError("ASSAY_HOME: file:// needs an absolute path, as in file:///mnt/shared/assay")
    if parts.scheme != "file" and not parts.netloc:
        raise InputError(f"ASSAY_HOME: {url} names no bucket; as in {parts.scheme}://bucket/prefix")
    return url.rstrip("/")


def scratch_of(url: str) -> Path:
    named = os.environ.get(SCRATCH)
    if named:
        return Path(named).expanduser().resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (cache / "assay" / digest(url)[:16]).resolve()


def use_remote_home(url: str) -> Path:
    url = check_url(url)
    scratch = scratch_of(url)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        mark = scratch / _MARK
        owner = _owner(scratch)
        if owner is None and any(path.name != _MARK for path in scratch.iterdir()):
            raise InputError(
                f"{scratch} holds files of something else and cannot be the scratch folder of {url}: "
                f"let {SCRATCH} name an empty one"
            )
        if owner is None:
            with atomic_write(mark) as temporary:
                temporary.write_text(url, "utf-8")
        elif owner != url:
            raise InputError(f"{scratch} is the scratch folder of {owner}: let {SCRATCH} name one for {url}")
    except OSError as error:
        raise InputError(
            f"{scratch} cannot be written to ({error.strerror}): let {SCRATCH} name a folder that can"
        ) from error
    os.environ[REMOTE] = url
    return scratch


def remote_url(root: Path) -> str | None:
    url = os.environ.get(REMOTE)
    return url if url and scratch_of(url) == root and _owner(root) == url else None


def _owner(scratch: Path) -> str | None:
    try:
        return (scratch / _MARK).read_text("utf-8")
    except FileNotFoundError:
        return None


@dataclass(frozen=True)
class Home:
    """The one folder that holds all state; nothing is written elsewhere."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "assay.duckdb"

    @property
    def dagster(self) -> Path:
        return self.root / "dagster"

    @property
    def models(self) -> Path:
        return Path(os.environ.get("ASSAY_MODELS") or self.root / "models").expanduser().resolve()

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def report(self, study: str) -> Path:
        return self.reports / f"{study}.html"

    def report_rows(self, study: str) -> Path:
        return self.reports / f"{study}.json"

    def report_data(self, study: str) -> list[Path]:
        return sorted(self.reports.glob(f"{study}.data-*/*.html"))

    @property
    def crawls(self) -> Path:
        return self.root / "crawls"

    def pages(self, source: str) -> Path:
        return self.root / "pages" / source

    def body(self, sha256: str) -> Path:
        return self.root / "bodies" / sha256[:2] / f"{sha256}.gz"

    @property
    def packs(self) -> Path:
        return self.root / "bodies" / "packs"

    @property
    def people(self) -> Path:
        return self.root / "people"

    @property
    def chats(self) -> Path:
        return self.root / "chats"

    def history(self, study: str) -> Path:
        return self.root / "history" / f"{study}.jsonl"

    @property
    def paid(self) -> Path:
        return self.root / "paid"

    def stage(self, stage: str) -> Path:
        return self.root / stage

    def index(self, identity: str) -> Path:
        return self.root / "indexes" / identity

    def cache(self, kind: str) -> Path:
        return self.root / "cache" / kind


def project_folder() -> Path:
    """Return the nearest folder upwards with `study.yaml` or `.git`; else the working directory."""
    here = Path.cwd()
    marks = ("study.yaml", ".git")
    return next((one for one in (here, *here.parents) if any((one / mark).exists() for mark in marks)), here)


def workspace_place() -> str:
    """Return the folder or URL of the workspace, as it is written: `ASSAY_HOME`, or `var` of the project."""
    return os.environ.get("ASSAY_HOME") or str(project_folder() / "var")


def home() -> Home:
    place = workspace_place()
    return Home(use_remote_home(place) if is_url(place) else Path(place).expanduser().resolve())
