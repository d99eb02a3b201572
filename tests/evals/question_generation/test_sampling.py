"""Samples: the same by seed whatever the order, bounded, hardly moved by what is added."""

from __future__ import annotations

import random

from rag_assay.evals.question_generation.kinds import HELD, Sample


def drawn(words: list[str], size: int = 20, seed: int = 7) -> list[str]:
    sample: Sample[str] = Sample(size, seed)
    for word in words:
        sample.add(word, word)
    return [one.key for one in sample.drawn()]


WORDS = [f"word {number}" for number in range(1_000)]


def test_the_order_of_the_stream_does_not_count_and_the_seed_does() -> None:
    shuffled = random.Random(1).sample(WORDS, len(WORDS))
    assert drawn(WORDS) == drawn(shuffled)
    assert len(drawn(WORDS)) == 20
    assert set(drawn(WORDS)) != set(drawn(WORDS, seed=8))
    assert drawn(WORDS, size=10) == drawn(WORDS)[:10], "a smaller sample is the beginning of a larger one"


def test_one_more_moves_one_at_most() -> None:
    before = set(drawn(WORDS))
    for number in range(200):
        assert len(before - set(drawn([*WORDS, f"new {number}"]))) <= 1


def test_all_of_a_drawn_key_is_seen_and_few_of_it_held() -> None:
    sample: Sample[int] = Sample(5, seed=3)
    for number in range(5_000):
        sample.add(WORDS[number % 1_000], number)
    found = sample.drawn()
    assert [one.count for one in found] == [5] * 5, "also what came before the key was drawn for good"
    for number in range(5_000, 5_100):
        sample.add(found[0].key, number)
    assert (sample.drawn()[0].count, len(sample.drawn()[0].things)) == (105, HELD)


def test_few_or_none_are_all_drawn() -> None:
    assert drawn([]) == []
    assert sorted(drawn(["a", "b"])) == ["a", "b"]
    assert drawn(WORDS, size=0) == []
