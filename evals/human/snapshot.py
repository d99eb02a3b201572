"""What people had said of a study, and were asked, at one time: what the annotations of then are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from rag_assay.evals.human.item_sampling import probabilities
from rag_assay.evals.human.queue_files import queue_version, read_queue
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.human_scores import HumanScores, ScoreSnapshot
from rag_assay.warehouse.paths import Home


class RatingSnapshot(NamedTuple):
    """What people had said, and the version of the queue that counted; None: there was none."""

    scores: ScoreSnapshot
    queue: str | None


def seen_now(home: Home, study: str) -> RatingSnapshot:
    """Return what people have said by now."""
    version = None
    with suppress(CorruptFileError):  # whoever asks for the queue is told
        version = queue_version(home, study)
    return RatingSnapshot(HumanScores(home).snapshot(study), version)


def drawing_probabilities(
    home: Home, study: str, seen: RatingSnapshot, scored: Collection[str] = ()
) -> Mapping[str, float]:
    """Return item id -> the probability with which it was drawn into the queue; nothing without a queue.

    scored: ids of the items that people have scored: where the more disputed come sooner, it is the
        probability with which an item is among so many
    """
    queue = None
    with suppress(CorruptFileError):
        queue = read_queue(home, study, seen.queue) if seen.queue else None
    return probabilities(queue, scored) if queue else {}
