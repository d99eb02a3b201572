"""Arrow files, and the folders of them that `Dataset.save_to_disk` of Hugging Face datasets writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rag_assay.warehouse.errors import InputError

STATE, SPLITS = "state.json", "dataset_dict.json"


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


def arrow_rows(path: Path, columns: list[str] | None = None, batch: int = 256) -> Iterator[dict[str, Any]]:
    """Rows of a memory-mapped file; columns: default: all. Raises InputError: no Arrow file."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            for one in _batches(file):
                kept = one if columns is None else one.select([c for c in columns if c in one.schema.names])
                for at in range(0, kept.num_rows, batch):
                    yield from kept.slice(at, batch).to_pylist()
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{path}: not an Arrow file that can be read ({first})") from error


def arrow_columns(path: Path) -> list[str]:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            return list(_opened(file).schema.names)
    except (pa.ArrowException, OSError) as error:
        first = str(error).partition("\n")[0]
        raise InputError(f"{path}: not an Arrow file that can be read ({first})") from error


def _opened(file: Any) -> Any:
    import pyarrow as pa

    is_file = file.read(6) == b"ARROW1"  # else a stream, as `save_to_disk` writes
    file.seek(0)
    return pa.ipc.open_file(file) if is_file else pa.ipc.open_stream(file)


def _batches(file: Any) -> Iterator[Any]:
    opened = _opened(file)
    if hasattr(opened, "num_record_batches"):
        for number in range(opened.num_record_batches):
            yield opened.get_batch(number)
    else:
        yield from opened
