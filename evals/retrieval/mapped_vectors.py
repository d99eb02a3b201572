"""Vectors in a memory-mapped file, gone through in parts that are let go of again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.memory_maps import let_go

ROWS = 65_536  # vectors that are mapped at once: 100 MB of 384 numbers

Vectors = npt.NDArray[np.float32]


def read_vectors(path: Path, shape: tuple[int, int]) -> Vectors:
    """Map the vectors of an index.

    Raises:
        CorruptFileError: the file is torn, or holds vectors of another shape.
    """
    try:
        found: Vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        _refuse_others(found, shape)
    except (OSError, ValueError, EOFError) as error:
        raise CorruptFileError(
            f"{path}: the vectors of the index are damaged ({error}). Delete the folder of the index; "
            "`assay run` makes it again."
        ) from error
    return found


def _refuse_others(vectors: Vectors, shape: tuple[int, int]) -> None:
    if vectors.shape != shape or vectors.dtype != np.float32:
        raise ValueError(f"it holds {vectors.dtype} of shape {vectors.shape} instead of float32 of {shape}")


def products(vectors: Vectors, vector: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return the product of each row and a vector, shape (rows,).

    Pages of a mapped file that were read are let go of part after part.
    """
    found = np.empty(len(vectors), np.float64)
    for first in range(0, len(vectors), ROWS):
        # Not `@`: BLAS sums some rows in another order than others, so that equal vectors would not tie.
        found[first : first + ROWS] = np.einsum("ij,j->i", vectors[first : first + ROWS], vector)
        if len(vectors) > ROWS:
            let_go(vectors)
    return found


def take_rows(vectors: Vectors, rows: npt.NDArray[np.int64]) -> Vectors:
    """Return the vectors of some rows, shape (rows, dimensions); pages that were read are let go of."""
    found = vectors[rows]
    if len(vectors) > ROWS:
        let_go(vectors)
    return found
