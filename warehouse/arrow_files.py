"""Arrow files, and the folders of them that `Dataset.save_to_disk` of Hugging Face datasets writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_assay.warehouse.errors import InputError

STATE, SPLITS = "state.json", "dataset_dict.json"
BATCH = 256  # rows that are read at once


def arrow_files(path: Path) -> list[Path]:
    """Raises InputError: the folder is no dataset, or has several splits, which it names."""
    if path.is_file():
        return [path]
    if (path / SPLITS).is_file():
        splits = sorted(one.parent for one in path.glob(f"*/{STATE}"))
        if len(splits) != 1:
            named = ", ".join(str(path / one.name) for one in splits) or "none is there"
            raise InputError(f"{path}: a dataset with several splits; name the folder of one: {named}")
        return arrow_files(splits[0])
    try:
        listed = json.loads((path / STATE).read_text("utf-8"))["_data_files"]
        names = [Path(one["filename"]).name for one in listed]
    except FileNotFoundError as error:
        what = f"is a folder, and no dataset that `save_to_disk` wrote: it has no {STATE}"
        raise InputError(f"{path}: {what}; a file is needed here") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path / STATE}: damaged ({error}); save the dataset again") from error
    return [path / name for name in names]


def is_of_dataset(path: Path) -> bool:
    """Return whether an Arrow file is data: a dataset's folder has cached results of `map`, too."""
    return not (path.parent / STATE).is_file() or path in arrow_files(path.parent)


def arrow_rows(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a memory-mapped file; columns: default: all. Raises InputError: no Arrow file."""
    with _opened(path) as file:
        in_stream = not hasattr(file, "num_record_batches")
        for one in file if in_stream else map(file.get_batch, range(file.num_record_batches)):
            kept = one if columns is None else one.select([c for c in columns if c in one.schema.names])
            for at in range(0, kept.num_rows, BATCH):
                yield from kept.slice(at, BATCH).to_pylist()


def arrow_columns(path: Path) -> list[str]:
    with _opened(path) as file:
        return list(file.schema.names)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            is_file = file.read(6) == b"ARROW1"  # else a stream, as `save_to_disk` writes
            file.seek(0)
            yield pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{path}: not an Arrow file that can be read ({first})") from error
