"""Reader of git repositories, by the `git` command."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import Field

from rag_assay.crawlers.items import Page
from rag_assay.crawlers.readers.files import display_name, failed_page
from rag_assay.crawlers.readers.folder import Folder
from rag_assay.crawlers.readers.remote_copies import copy_of
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.source import Source, is_url

SCHEMES = ("https", "http", "ssh", "git")
_SECONDS = 3600
MAX_BYTES = 10_000_000_000  # of what is fetched, and of the files unpacked
_BLOCK = 512  # bytes: the unit of `ulimit -f` (POSIX)
# Without hooks and questions on the terminal, and without protocols that run commands (`ext::`).
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "LC_ALL": "C",
}
_OF_CONNECTIONS = ("GIT_SSH", "GIT_SSL", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "core.fsmonitor=false",
    "gc.auto=0",
    "fetch.unpackLimit=1",  # one file, which the limit of file sizes bounds
)
_NOT_READ = {"120000": "a symbolic link, which is not followed", "160000": "a submodule, which is not read"}


class Git(Folder):
    """Committed files of a git repository at a branch, tag or commit, read as `folder` reads files.

    A later run fetches only what has changed.

    ref: branch, tag or commit; default: the default branch
    suffixes: endings of the files that are read, such as `.md`; default: all kinds
    """

    kind: ClassVar[str] = "git"
    ref: Annotated[str, Field(pattern=r"^[\w][\w./@-]*$")] = "HEAD"

    def read(self, source: Source) -> Iterator[Page]:
        """Raises InputError: no repository, no such ref, or more than `MAX_BYTES`."""
        where = _where(source)
        with copy_of(f"git {where}") as folder:
            repository, tree = folder / "repository", folder / "files"
            tree.mkdir(exist_ok=True)
            if not (repository / "HEAD").exists():
                _git(repository.parent, "init", "--quiet", "--bare", str(repository))
            git = (f"--git-dir={repository}", f"--work-tree={tree}")
            fetch = ("fetch", "--quiet", "--depth=1", "--no-tags", "--force")
            try:
                _git(tree, *git, *fetch, "--", where, self.ref)
            finally:
                for torn in (repository / "objects" / "pack").glob("tmp_*"):  # also of a killed reading
                    torn.unlink(missing_ok=True)
            skipped = _check_tree(_git(tree, *git, "ls-tree", "-r", "-l", "-z", "FETCH_HEAD"))
            _git(tree, *git, "read-tree", "--reset", "-u", "FETCH_HEAD")
            for name, reason in skipped.items():
                if not (tree / name).is_dir():
                    (tree / name).unlink(missing_ok=True)
                yield failed_page(display_name(name), reason)
            yield from super().read(source.model_copy(update={"path": str(tree)}))

    def state(self, source: Source) -> str | None:
        """Return the commit of a local repository; None: a remote one is contacted only when it is read."""
        where = _where(source)
        if is_url(where):
            return None
        return _git(
            Path(where), "rev-parse", "--verify", "--end-of-options", f"{self.ref}^{{commit}}"
        ).strip()


def _where(source: Source) -> str:
    path = source.path or ""
    if not is_url(path):
        folder = Path(path).expanduser()
        if not folder.is_dir():
            raise InputError(f"path: there is no folder {folder}.")
        return str(folder.resolve())
    parts = urlsplit(path)
    if parts.scheme not in SCHEMES:
        raise InputError(
            f"path: a repository lies in a folder, or at {', '.join(SCHEMES)}, not {parts.scheme}."
        )
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise InputError(
            f"path: the address at {parts.hostname} holds a user name or password, which would be stored: "
            "give it to git's credential helper."
        )
    return path


def _check_tree(listing: str) -> dict[str, str]:
    skipped: dict[str, str] = {}
    size = 0
    for entry in filter(None, listing.split("\0")):
        facts, _, name = entry.partition("\t")
        mode, _, _, length = facts.split()
        if mode in _NOT_READ and not any(part.startswith(".") for part in name.split("/")):
            skipped[name] = _NOT_READ[mode]
        size += int(length) if length.isdecimal() else 0
    if size > MAX_BYTES:
        raise InputError(_TOO_LARGE.format(MAX_BYTES))
    return skipped


_TOO_LARGE = (
    "path: the repository holds more than {} bytes, the most that are read: read a part of it as `folder`"
)


def _git(folder: Path, *arguments: str) -> str:
    """Run git with the user's settings, without hooks, and without questions on a terminal."""
    if shutil.which("git") is None:
        raise InputError("reading a git repository needs the command `git`: install it")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    # Variables that a git hook sets (`GIT_DIR`, `GIT_INDEX_FILE`) would override the arguments.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_OF_CONNECTIONS)
    }
    try:
        done = subprocess.run(
            ["sh", "-c", f'ulimit -f {MAX_BYTES // _BLOCK}; exec git "$@"', "git", *settings, *arguments],
            cwd=folder,
            env={**environment, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
            start_new_session=True,
            restore_signals=False,  # so that a file which is too large is an error, and no signal
        )
    except subprocess.TimeoutExpired as error:
        raise AssayError(f"git {arguments[-2]} took longer than {_SECONDS} seconds") from error
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if any("File too large" in line for line in words):
            raise InputError(_TOO_LARGE.format(MAX_BYTES))
        raise InputError(f"path: git says: {words[0][:300] if words else f'exit code {done.returncode}'}")
    return os.fsdecode(done.stdout)
