"""Memory-mapped arrays whose pages can be released."""

from __future__ import annotations

import mmap
from typing import Any

import numpy.typing as npt


def let_go(array: npt.NDArray[Any]) -> None:
    """Release the pages of a mapped file that were read; of an array in memory, do nothing.

    They stay in the cache of the system, which has them for the next reader, but are not counted as memory of
    the process. A page that is read again costs about a microsecond; the system maps its neighbours with it.
    """
    mapped = getattr(array, "_mmap", None)
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
