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
from rag_assay.crawlers.readers.folder import Folder
from rag_assay.crawlers.readers.remote_copies import copy_of
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.source import Source, is_url

SCHEMES = ("https", "http", "ssh", "git")
_SECONDS = 3600
# Without hooks and questions on the terminal, and without protocols that run commands (`ext::`).
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh", "LC_ALL": "C"}
_OF_CONNECTIONS = ("GIT_SSH", "GIT_SSL", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")
_SETTINGS = ("core.hooksPath=/dev/null", "core.symlinks=false", "core.fsmonitor=false", "gc.auto=0")


class Git(Folder):
    """The files of a git repository, as `folder` reads them: committed ones, at a branch, tag or commit. A
    later reading fetches only what has changed.

    ref: branch, tag or commit; default: the default branch
    suffixes: endings of the files that are read, such as `.md`; default: all kinds
    """

    kind: ClassVar[str] = "git"
    ref: Annotated[str, Field(pattern=r"^[\w][\w./@-]*$")] = "HEAD"

    def read(self, source: Source) -> Iterator[Page]:
        """Yield the pages of the files at ``ref``.

        Raises:
            InputError: `path` is no repository, or it has no such ref.
        """
        where = _where(source)
        with copy_of(f"git {where}") as folder:
            repository, tree = folder / "repository", folder / "files"
            tree.mkdir(exist_ok=True)
            if not (repository / "HEAD").exists():
                _git(repository.parent, "init", "--quiet", "--bare", str(repository))
            git = (f"--git-dir={repository}", f"--work-tree={tree}")
            _git(tree, *git, "fetch", "--quiet", "--depth=1", "--no-tags", "--force", "--", where, self.ref)
            _git(tree, *git, "read-tree", "--reset", "-u", "FETCH_HEAD")
            yield from super().read(source.model_copy(update={"path": str(tree)}))

    def state(self, source: Source) -> str | None:
        """Return the commit of a repository on this machine; None for one elsewhere, which is not asked."""
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


def _git(folder: Path, *arguments: str) -> str:
    """Run git and return what it prints. Its settings are those of the user; hooks are not run."""
    if shutil.which("git") is None:
        raise InputError("reading a git repository needs the command `git`: install it")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    # What names another repository or index, as under a hook, would win over the arguments.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_OF_CONNECTIONS)
    }
    try:
        done = subprocess.run(
            ["git", *settings, *arguments],
            cwd=folder,
            env={**environment, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise AssayError(f"git {arguments[-2]} took longer than {_SECONDS} seconds") from error
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(f"path: git says: {words[0][:300] if words else f'exit code {done.returncode}'}")
    return done.stdout.decode("utf-8", "replace")
