"""Queues as files, `<home>/people/<study>/queues/<version>.json`: a page reads nothing else.

`<home>/people/<study>/queue.json` names the version that counts. Scores hang on items, not on queues: a
newer queue takes nothing from those that were given on an older one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rag_assay.evals.human.queue import Queue, QueuedItem
from rag_assay.evals.rubrics.item_records import read_item, written_item
from rag_assay.evals.rubrics.rubric import AnyRubric, Rubric
from rag_assay.warehouse.atomic_write import atomic_write
from rag_assay.warehouse.components import as_written
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.paths import Home

FORMAT = 1
_VERSION = re.compile("[0-9a-f]{1,64}")
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(AnyRubric)


def queue_version(home: Home, study: str) -> str | None:
    """Return the version of the queue of a study that counts; None where there is none.

    Raises:
        CorruptFileError: the file that says it is damaged.
    """
    newest = _newest(home, study)
    return str(_read(newest).get("version")) if newest.is_file() else None


def queue_path(home: Home, study: str, version: str) -> Path:
    """Return where a queue lies."""
    return _folder(home, study) / "queues" / f"{version}.json"


def write_queue(home: Home, queue: Queue) -> Path:
    """Write a queue, and have it be the one that counts; a reader sees it whole or not at all."""
    path = queue_path(home, queue.study, queue.version)
    _write(path, _written(queue))
    _write(_newest(home, queue.study), {"version": queue.version})
    return path


def read_queue(home: Home, study: str, version: str | None = None) -> Queue | None:
    """Return the queue of a study that counts, or that of a version; None where there is none.

    Raises:
        CorruptFileError: the file is damaged.
    """
    version = version or queue_version(home, study)
    if version is None:
        return None
    path = queue_path(home, study, version)
    if not _VERSION.fullmatch(version) or not path.is_file():
        return None
    written = _read(path)
    try:
        return _queue(written)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, error) from error


def _folder(home: Home, study: str) -> Path:
    return home.people / study


def _newest(home: Home, study: str) -> Path:
    return _folder(home, study) / "queue.json"


def _write(path: Path, written: Mapping[str, Any]) -> None:
    with atomic_write(path) as temporary:  # dumps is written in C, and many times faster than dump
        temporary.write_text(json.dumps(written, allow_nan=False), encoding="ascii")


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(found, dict):
        raise _damaged(path, TypeError("no JSON object"))
    return found


def _damaged(path: Path, error: Exception) -> CorruptFileError:
    reason = f"{type(error).__name__}: {error}"
    return CorruptFileError(f"{path}: is no queue ({reason[:200]}); delete it and it is made again")


def _written(queue: Queue) -> dict[str, Any]:
    """Return a queue as JSON; a text that several passages have stands in it once."""
    places: dict[str, int] = {}
    items = []
    for one in queue.items:
        item = written_item(one.item)
        passages = item["passages"]
        for passage in passages if isinstance(passages, list) else ():
            if isinstance(passage, dict):
                passage["text"] = places.setdefault(str(passage["text"]), len(places))
        items.append(
            {
                "item_id": one.item_id,
                **item,
                "rubrics": list(one.rubrics),
                "probability": one.probability,
                "disputed": one.disputed,
            }
        )
    return {
        "format": FORMAT,
        "version": queue.version,
        "study": queue.study,
        "made_at": queue.made_at.isoformat(),
        "seed": queue.seed,
        "twice": queue.twice,
        "repeats": queue.repeats,
        "order": queue.order,
        "population": queue.population,
        "needed": queue.needed,
        "rubrics": {name: as_written(one) for name, one in queue.rubrics.items()},
        "texts": list(places),
        "items": items,
    }


def _queue(written: Mapping[str, Any]) -> Queue:
    if written["format"] != FORMAT:
        raise ValueError(f"format {written['format']!r}, and not {FORMAT}")
    return Queue(
        study=written["study"],
        rubrics={name: _RUBRIC.validate_python(one) for name, one in written["rubrics"].items()},
        items=tuple(_queued(one, written["texts"]) for one in written["items"]),
        seed=written["seed"],
        made_at=datetime.fromisoformat(written["made_at"]),
        twice=written["twice"],
        repeats=written["repeats"],
        order=written["order"],
        population=written["population"],
        needed=written["needed"],
    )


def _queued(written: Mapping[str, Any], texts: list[str]) -> QueuedItem:
    passages = [{**one, "text": texts[one["text"]]} for one in written["passages"]]
    item = read_item({**written, "passages": passages})
    return QueuedItem(item, tuple(written["rubrics"]), written["probability"], written["disputed"])
