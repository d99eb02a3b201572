"""The queue of a study: what people are to score, and in which order each of them is shown it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from rag_assay.evals.rubrics.items import Item, read_item, written_item
from rag_assay.evals.rubrics.rubric import AnyRubric, Criterion, Rubric
from rag_assay.warehouse.atomic_write import write_file
from rag_assay.warehouse.components import as_written
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.paths import Home

Order = Literal["random", "disputed"]
TWICE, REPEATS = 0.2, 0.05  # shares of the items, unless a study says others


@dataclass(frozen=True)
class QueuedItem:
    """An item that was drawn into a queue; disputed: how much judges disagree, 0 to 1, if known.

    rubrics: names; of an item with a rival those that compare with it; probability: above 0, at most 1
    """

    item: Item
    rubrics: tuple[str, ...]
    probability: float = 1.0
    disputed: float | None = None

    @cached_property
    def item_id(self) -> str:
        return self.item.item_id


@dataclass(frozen=True)
class Queue:
    """What annotators are to rate, blind to cells, models and other ratings; items: in the order of drawing.

    twice: share of the items that two annotators rate; repeats: of an annotator's that are shown once more
    order: `random`, or the more disputed sooner; needed: items that the wanted precision needs, if any
    """

    study: str
    rubrics: Mapping[str, Rubric]
    items: tuple[QueuedItem, ...]
    seed: int
    made_at: datetime
    twice: float = TWICE
    repeats: float = REPEATS
    order: Order = "random"
    population: int = 0
    needed: int | None = None

    @cached_property
    def version(self) -> str:
        """Digest of the content without `made_at` and `needed`."""
        items = [[written_item(one.item), one.rubrics, one.probability, one.disputed] for one in self.items]
        rubrics = {name: [as_written(one), one.version] for name, one in self.rubrics.items()}
        facts = [self.study, self.seed, self.twice, self.repeats, self.order, self.population]
        return digest(["queue", facts, rubrics, items])[:12]

    @cached_property
    def by_id(self) -> dict[str, QueuedItem]:
        return {one.item_id: one for one in self.items}

    @cached_property
    def versions(self) -> dict[str, str]:
        return {name: rubric.version for name, rubric in self.rubrics.items()}

    def asked(self, item_id: str) -> list[tuple[str, Criterion]]:
        named = self.by_id[item_id].rubrics
        return [
            (name, one) for name, rubric in self.rubrics.items() if name in named for one in rubric.criteria
        ]


@dataclass(frozen=True)
class Showing:
    """An item as an annotator sees it; position: from 1; showing: 1 for the first time, 2 for a hidden
    repeat.

    swapped: the rival stands first; stored values are of the answer all the same
    """

    item: Item
    rubrics: tuple[str, ...]
    position: int
    showing: Literal[1, 2] = 1
    swapped: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.item.item_id, self.showing


@dataclass(frozen=True)
class QueueProgress:
    """left: known to come for the annotator; scored: items with enough ratings"""

    shown: int
    left: int
    scored: int
    items: int


FORMAT = 1
_FACTS = ("study", "seed", "twice", "repeats", "order", "population", "needed")
"""Fields of a queue that its file holds as they are."""
_VERSION = re.compile("[0-9a-f]{1,64}")
_RUBRIC: TypeAdapter[Rubric] = TypeAdapter(AnyRubric)


def queue_version(home: Home, study: str) -> str | None:
    newest = _newest(home, study)
    return str(_read(newest).get("version")) if newest.is_file() else None


def queue_path(home: Home, study: str, version: str) -> Path:
    return _folder(home, study) / "queues" / f"{version}.json"


def write_queue(home: Home, queue: Queue) -> Path:
    path = queue_path(home, queue.study, queue.version)
    _write(path, _written(queue))
    _write(_newest(home, queue.study), {"version": queue.version})
    return path


def read_queue(home: Home, study: str, version: str | None = None) -> Queue | None:
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
    write_file(path, json.dumps(written, allow_nan=False))


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
    return CorruptFileError(
        f"{path}: is not a queue ({reason[:200]}); delete it, and the next export writes it again"
    )


def _written(queue: Queue) -> dict[str, Any]:
    places: dict[str, int] = {}
    items = []
    for one in queue.items:
        item = written_item(one.item)
        passages = item["passages"]
        for passage in passages if isinstance(passages, list) else ():
            if isinstance(passage, dict):
                passage["text"] = places.setdefault(str(passage["text"]), len(places))
        drawn = {"rubrics": list(one.rubrics), "probability": one.probability, "disputed": one.disputed}
        items.append({"item_id": one.item_id, **item, **drawn})
    return {
        "format": FORMAT,
        "version": queue.version,
        "made_at": queue.made_at.isoformat(),
        **{name: getattr(queue, name) for name in _FACTS},
        "rubrics": {name: as_written(one) for name, one in queue.rubrics.items()},
        "texts": list(places),
        "items": items,
    }


def _queue(written: Mapping[str, Any]) -> Queue:
    if written["format"] != FORMAT:
        raise ValueError(f"format {written['format']!r}, and not {FORMAT}")
    return Queue(
        **{name: written[name] for name in _FACTS},
        rubrics={name: _RUBRIC.validate_python(one) for name, one in written["rubrics"].items()},
        items=tuple(_queued(one, written["texts"]) for one in written["items"]),
        made_at=datetime.fromisoformat(written["made_at"]),
    )


def _queued(written: Mapping[str, Any], texts: list[str]) -> QueuedItem:
    passages = [{**one, "text": texts[one["text"]]} for one in written["passages"]]
    item = read_item({**written, "passages": passages})
    return QueuedItem(item, tuple(written["rubrics"]), written["probability"], written["disputed"])
