"""Claims of texts: processes that compute vectors side by side, and none that another is computing.

A claim is a locked file that lists SHA-256 digits. The lock of a killed process is free, and its claim void.
On a file system without locks there are no claims: two processes may then compute the same, to no harm.
"""

from __future__ import annotations

import fcntl
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assay.warehouse.locks import try_lock

PATTERN = ".claim-*"


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool | None]:
    """Hold a lock while the block lasts.

    Yields:
        False where another holds it and it was not waited for; None where there are no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        held = try_lock(file.fileno())
        if held is False and wait:
            fcntl.flock(file, fcntl.LOCK_EX)
            held = True
        yield held


@contextmanager
def claim_texts(folder: Path, hashes: Sequence[str]) -> Iterator[npt.NDArray[np.bool_]]:
    """Claim texts while the block lasts, but for those that another process has claimed.

    Yields:
        which of the texts are this process's, shape (texts,).
    """
    path = folder / f".claim-{uuid.uuid4().hex}"
    with locked(folder / ".claiming.lock", wait=True) as locks:
        taken = {one for claim in folder.glob(PATTERN) for one in _listed(claim)} if locks else set[str]()
        mine = np.array([name not in taken for name in hashes], np.bool_)
        listed = "\n".join(name for name, own in zip(hashes, mine.tolist(), strict=True) if own)
        file = path.open("w")
        if locks:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(listed)
            file.flush()
    try:
        yield mine
    finally:
        path.unlink(missing_ok=True)
        file.close()


def wait_for(folder: Path, hashes: Sequence[str]) -> None:
    """Wait until no claim of now holds one of some texts any longer."""
    wanted = set(hashes)
    for claim in folder.glob(PATTERN):
        with suppress(FileNotFoundError), claim.open("r+") as file:
            if not wanted.isdisjoint(file.read().split()):
                with suppress(OSError):  # no locks: nothing to wait for
                    fcntl.flock(file, fcntl.LOCK_EX)


def _listed(claim: Path) -> list[str]:
    """Return what a claim lists; nothing, and no file, where the process that made it was killed."""
    with suppress(FileNotFoundError), claim.open("r+") as file:
        if try_lock(file.fileno()) is False:
            return file.read().split()
        with suppress(FileNotFoundError):
            claim.unlink()
    return []
