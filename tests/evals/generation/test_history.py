"""A conversation reaches the prompt by its newest turns, whole, and what is left out is counted."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rag_assay.evals.generation.contract import Request
from rag_assay.evals.generation.prompt_fitting import recent_turns, with_recent

TURNS = st.lists(st.text(max_size=12), max_size=9).map(tuple)


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


@given(TURNS, st.integers(0, 80))
def test_the_newest_turns_are_kept_whole_within_the_limit(turns: tuple[str, ...], limit: int) -> None:
    kept, left_out = recent_turns(turns, limit, characters)
    assert sum(characters(kept)) <= limit
    newest = turns[len(turns) - len(kept) :]
    changed = [place for place, (one, other) in enumerate(zip(newest, kept, strict=True)) if one != other]
    assert changed in ([], [1]), "only the answer to the oldest kept question may be missing"
    assert all(kept[place] == "" for place in changed)
    assert left_out == sum(bool(turn.strip()) for turn in turns) - sum(bool(turn.strip()) for turn in kept)
    assert not kept or (len(turns) - len(kept)) % 2 == 0, "a question comes first"
    if sum(characters(turns)) <= limit:
        assert (kept, left_out) == (turns, 0)


@given(TURNS, st.integers(0, 80))
def test_more_room_never_keeps_fewer_turns(turns: tuple[str, ...], limit: int) -> None:
    assert (
        recent_turns(turns, limit, characters).left_out >= recent_turns(turns, limit + 1, characters).left_out
    )


def test_one_token_less_than_the_conversation_loses_its_oldest_answer_or_turn() -> None:
    turns = ("aa", "bbb", "cc", "ddd")
    assert recent_turns(turns, 10, characters) == (turns, 0)
    assert recent_turns(turns, 9, characters) == (("aa", "", "cc", "ddd"), 1)
    assert recent_turns(turns, 6, characters) == (("cc", "ddd"), 2)
    assert recent_turns(turns, 4, characters) == (("cc", ""), 3)
    assert recent_turns(turns, 1, characters) == ((), 4)


def test_a_request_without_a_conversation_is_the_same_object() -> None:
    request = Request("Who?")
    assert with_recent(request, 0, characters) == (request, 0)
    assert with_recent(request, 0, characters)[0] is request
