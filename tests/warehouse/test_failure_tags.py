"""Failure tags: given, taken back, and the same tag whoever types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.failure_tags import LONGEST_TAG, FailureTag, FailureTags, tags_by_use
from rag_assay.warehouse.paths import Home


@pytest.fixture
def tags(tmp_path: Path) -> FailureTags:
    return FailureTags(Home(tmp_path), "town")


def test_own_words_become_a_list_to_pick_from(tags: FailureTags) -> None:
    assert tags.current() == []
    assert tags.toggle("Ada", "i1", "  Wrong   year ")
    assert tags.toggle("Ben", "i2", "wrong YEAR")
    assert tags.toggle("Ben", "i2", "made up")
    assert tags.current() == [
        FailureTag("Ada", "i1", "Wrong year"),
        FailureTag("Ben", "i2", "Wrong year"),
        FailureTag("Ben", "i2", "made up"),
    ]
    assert tags_by_use(tags.current()) == ["Wrong year", "made up"]


def test_a_tag_is_taken_back_by_giving_it_again(tags: FailureTags) -> None:
    assert tags.toggle("Ada", "i1", "old")
    assert not tags.toggle("Ada", "i1", "old")
    assert tags.current() == []
    assert tags.toggle("Ada", "i1", "old")
    assert len(tags.current()) == 1


def test_a_repeat_does_not_show_what_was_said_before(tags: FailureTags) -> None:
    tags.toggle("Ada", "i1", "old")
    assert tags.toggle("Ada", "i1", "old", showing=2)
    assert tags.current() == [FailureTag("Ada", "i1", "old"), FailureTag("Ada", "i1", "old", 2)]


@pytest.mark.parametrize("written", ["", " \n ", "x" * (LONGEST_TAG + 1)])
def test_what_is_no_tag_is_refused(tags: FailureTags, written: str) -> None:
    with pytest.raises(InputError, match="1 to 60 characters"):
        tags.toggle("Ada", "i1", written)
    assert not tags.path.exists()


def test_lines_that_are_no_tags_are_passed_over(tags: FailureTags) -> None:
    tags.toggle("Ada", "i1", "old")
    with tags.path.open("a") as file:
        file.write('{"tag_id": "x"}\n[1]\ntorn')
    assert tags.current() == [FailureTag("Ada", "i1", "old")]
