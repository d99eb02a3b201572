"""Queues as files: whole, found again by version, never half there."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.human.queue import QueuedItem, queue_path, read_queue, write_queue
from rag_assay.evals.judging.contract import JudgeCase
from rag_assay.evals.rubrics.items import Item, blind, read_item, written_item
from rag_assay.evals.rubrics.points import Points
from rag_assay.warehouse.errors import CorruptFileError
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status
from tests.fakes.queues import item_of, queue_of

ODD = JudgeCase(
    "Why {this}\n<b>?</b>",
    None,
    "<script>alert(1)</script> \x00\ud800 " + "x" * 100_000,
    Status.REFUSED,
    "the model's own words",
    None,
    (Passage(""), Passage("same", chunk="c1", document="d", start=4, end=8, score=0.5), Passage("same")),
    rival="",
)


def test_a_queue_is_read_as_it_was_written(tmp_path: Path) -> None:
    queue = queue_of(
        [
            *(item_of(n) for n in range(5)),
            blind(Item(ODD, ("same", ""), ((1, 0, 4),), ("Hi?", "Ho."), "2024-05-31")),
        ],
        twice=0.5,
        needed=9,
    )
    queue = replace(queue, items=(replace(queue.items[0], probability=0.25, disputed=0.5), *queue.items[1:]))
    path = write_queue(Home(tmp_path), queue)
    assert path == queue_path(Home(tmp_path), "tiny", queue.version)
    found = read_queue(Home(tmp_path), "tiny")
    assert found == queue
    assert found is not None
    assert found.version == queue.version
    assert read_queue(Home(tmp_path), "tiny", queue.version) == queue
    assert (read_queue(Home(tmp_path), "other"), read_queue(Home(tmp_path), "tiny", "0" * 12)) == (None, None)
    assert read_queue(Home(tmp_path), "other", f"../../tiny/queues/{queue.version}") is None


def test_the_version_is_of_the_content_alone() -> None:
    queue = queue_of(3)
    assert replace(queue, made_at=queue.made_at + timedelta(days=1), needed=3).version == queue.version
    others = [
        replace(queue, items=queue.items[:2]),
        replace(queue, items=queue.items[::-1]),
        replace(queue, items=(replace(queue.items[0], probability=0.5), *queue.items[1:])),
        replace(queue, rubrics={"points": Points(ask="Is it good?")}),
        replace(queue, seed=8),
        replace(queue, twice=0.3),
        replace(queue, repeats=0.1),
        replace(queue, study="other"),
    ]
    assert len({queue.version, *(one.version for one in others)}) == len(others) + 1


def test_the_newest_written_counts_even_if_it_was_there_before(tmp_path: Path) -> None:
    old, new = queue_of(3), queue_of(4)
    for queue in (old, new, old):
        write_queue(Home(tmp_path), queue)
        assert read_queue(Home(tmp_path), "tiny") == queue
    assert read_queue(Home(tmp_path), "tiny", new.version) == new


def test_a_text_of_many_passages_lies_there_once(tmp_path: Path) -> None:
    path = write_queue(Home(tmp_path), queue_of(50))
    assert path.read_text().count("Tickets are sold") == 1
    assert set(path.parent.iterdir()) == {path}, "nothing is left beside it"


def test_an_item_tells_nothing_of_where_it_is_from(tmp_path: Path) -> None:
    passage = Passage(
        "Text.", "chunk-secret", "doc-secret", "Title", "https://x.example", start=111_111, score=0.987654
    )
    item = Item(JudgeCase("Why?", answer="So.", reason="reason-secret", passages=(passage,)))
    queue = replace(queue_of(1), items=(QueuedItem(item, ("points",), 0.125, 0.375),))
    text = write_queue(Home(tmp_path), queue).read_text()
    assert not [one for one in ("secret", "111111", "987654") if one in text]
    assert blind(item).item_id == item.item_id
    assert read_item(written_item(item)) == blind(item)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1}', "[" * 100_000, "\ud800"]
)
@pytest.mark.parametrize("which", ["queue", "pointer"])
def test_a_damaged_file_is_named(text: str, which: str, tmp_path: Path) -> None:
    path = write_queue(Home(tmp_path), queue_of(2))
    damaged = path if which == "queue" else path.parents[1] / "queue.json"
    damaged.write_bytes(text.encode("utf-8", "surrogatepass"))
    if which == "pointer" and text.startswith('{"'):
        assert read_queue(Home(tmp_path), "tiny") is None
        return
    with pytest.raises(CorruptFileError, match=damaged.name):
        read_queue(Home(tmp_path), "tiny")


def test_an_item_whose_text_is_out_of_the_table_is_damage(tmp_path: Path) -> None:
    path = write_queue(Home(tmp_path), queue_of(2))
    written = json.loads(path.read_text())
    written["texts"] = []
    path.write_text(json.dumps(written))
    with pytest.raises(CorruptFileError):
        read_queue(Home(tmp_path), "tiny")
