"""Remote workspaces: `ASSAY_HOME` may be a URL of object storage, or `file:///…` for a shared disk.

Stages work on paths, so it has a scratch folder on this machine: `ASSAY_SCRATCH`, or one below
the user's cache. `ASSAY_REMOTE` is set by us, for the processes that we start.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

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
    """Return the URL of a workspace without a slash at its end."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise InputError(
            f"ASSAY_HOME: no home can lie at {parts.scheme}://…; it can at s3://bucket/prefix, "
            "gs://bucket/prefix, az://account/container/prefix, file:///folder, or in a folder"
        )
    if parts.username or parts.password or parts.query:
        raise InputError("ASSAY_HOME: the URL holds a name, a password or a query; keys belong into AWS_…")
    if parts.scheme == "file" and (parts.netloc or not parts.path.strip("/")):
        raise InputError("ASSAY_HOME: file:// needs a whole path, as in file:///mnt/shared/assay")
    if parts.scheme != "file" and not parts.netloc:
        raise InputError(f"ASSAY_HOME: {url} names no bucket; as in {parts.scheme}://bucket/prefix")
    return url.rstrip("/")


def scratch_of(url: str) -> Path:
    """Return the folder on this machine in which the files of a workspace at a URL are used."""
    named = os.environ.get(SCRATCH)
    if named:
        return Path(named).expanduser().resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (cache / "assay" / digest(url)[:16]).resolve()


def use_remote_home(url: str) -> Path:
    """Let this process and its children work on the workspace at a URL; return its scratch folder."""
    url = check_url(url)
    scratch = scratch_of(url)
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        mark = scratch / _MARK
        owner = _owner(scratch)
        if owner is None and any(path.name != _MARK for path in scratch.iterdir()):
            raise InputError(
                f"{scratch} holds files of something else and can be no scratch folder of {url}: "
                f"let {SCRATCH} name an empty one"
            )
        if owner is None:
            temporary = mark.with_name(f".{os.getpid()}.tmp")
            temporary.write_text(url, "utf-8")
            temporary.replace(mark)
        elif owner != url:
            raise InputError(f"{scratch} is the scratch folder of {owner}: let {SCRATCH} name one for {url}")
    except OSError as error:
        raise InputError(
            f"{scratch} cannot be written to ({error.strerror}): let {SCRATCH} name a folder that can"
        ) from error
    os.environ[REMOTE] = url
    return scratch


def remote_url(root: Path) -> str | None:
    """Return the URL of the workspace of a scratch folder; None for a local workspace."""
    url = os.environ.get(REMOTE)
    return url if url and scratch_of(url) == root and _owner(root) == url else None


def _owner(scratch: Path) -> str | None:
    try:
        return (scratch / _MARK).read_text("utf-8")
    except FileNotFoundError:
        return None
