"""What people had said of a study, and were asked, at one time: what the annotations of then are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from evals.queueing.drawing import probabilities
from evals.queueing.queue_files import queue_version, read_queue
from warehouse.errors import CorruptFileError
from warehouse.human_scores import HumanScores, Snapshot
from warehouse.paths import Home


class Seen(NamedTuple):
    """What people had said, and the version of the queue that counted; None: there was none."""

    scores: Snapshot
    queue: str | None


def seen_now(home: Home, study: str) -> Seen:
    """Return what people have said by now."""
    version = None
    with suppress(CorruptFileError):  # whoever asks for the queue is told
        version = queue_version(home, study)
    return Seen(HumanScores(home).snapshot(study), version)


def drawn(home: Home, study: str, seen: Seen, scored: Collection[str] = ()) -> Mapping[str, float]:
    """Return item id -> the probability with which it was drawn into the queue; nothing without a queue.

    scored: ids of the items that people have scored: where the more disputed come sooner, it is the
        probability with which an item is among so many
    """
    queue = None
    with suppress(CorruptFileError):
        queue = read_queue(home, study, seen.queue) if seen.queue else None
    return probabilities(queue, scored) if queue else {}
