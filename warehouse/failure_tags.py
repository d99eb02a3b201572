"""Failure tags: why an answer failed, in annotators' own words: `<home>/people/<study>/tags.jsonl`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from secrets import token_hex

from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScores, annotator_name
from rag_assay.warehouse.journal import append, read_records
from rag_assay.warehouse.paths import Home

LONGEST_TAG = 60  # characters


@dataclass(frozen=True)
class FailureTag:
    """Why an annotator says that an answer failed; ``showing`` is 2 for a hidden repeat."""

    annotator: str
    item_id: str
    tag: str
    showing: int = 1


class FailureTags:
    """The failure tags of a study."""

    def __init__(self, home: Home, study: str) -> None:
        self.path = HumanScores(home).folder(study).with_name("tags.jsonl")

    def current(self) -> list[FailureTag]:
        found: dict[FailureTag, None] = {}
        spelt: dict[str, str] = {}  # two annotators may type a new tag at once
        for record in read_records(self.path, _is_record):
            showing = 2 if record.get("showing") == 2 else 1
            tag = spelt.setdefault(record["tag"].casefold(), record["tag"])
            one = FailureTag(record["annotator"], record["item_id"], tag, showing)
            if record.get("removed"):
                found.pop(one, None)
            else:
                found.setdefault(one)
        return list(found)

    def toggle(self, annotator: str, item_id: str, written: str, showing: int = 1) -> bool:
        """Give an answer a tag, or take it back; return whether it has it now. Raises InputError."""
        text = " ".join(encodable(written).split())
        if not text or len(text) > LONGEST_TAG:
            raise InputError(f"a failure tag has 1 to {LONGEST_TAG} characters, not {len(text)}")
        current = self.current()
        known = {one.tag.casefold(): one.tag for one in current}
        new = FailureTag(annotator_name(annotator), item_id, known.get(text.casefold(), text), showing)
        is_there = new in current
        record = {"tag_id": token_hex(8), **asdict(new), "removed": is_there}
        append(self.path, [record], "tag_id", _is_record)
        return not is_there


def tags_by_use(tags: Iterable[FailureTag]) -> list[str]:
    """Return the tags, the one of the most answers first.

    >>> given = FailureTag("a", "1", "old"), FailureTag("a", "2", "made up"), FailureTag("b", "3", "old")
    >>> tags_by_use(given)
    ['old', 'made up']
    """
    counts = Counter(tag for _, tag in {(one.item_id, one.tag) for one in tags})
    return sorted(counts, key=lambda tag: (-counts[tag], tag))


def _is_record(record: object) -> bool:
    return isinstance(record, dict) and all(
        isinstance(record.get(name), str) for name in ("tag_id", "annotator", "item_id", "tag")
    )
