"""What each annotator is shown: seeded, shared as far as wanted, repeated apart, and never lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from math import ceil
from typing import Any

import pytest

from rag_assay.evals.human.item_order import APART, next_showing, progress, showing_of, showings
from rag_assay.evals.human.queue import Queue, Showing
from rag_assay.evals.rubrics.points import Points
from rag_assay.warehouse.human_scores import HumanScore
from tests.fakes.queues import item_of, queue_of, scores_of


def ids(found: list[Showing], showing: int = 1) -> list[str]:
    return [one.item.item_id for one in found if one.showing == showing]


def work(queue: Queue, turns: list[str], scores: list[HumanScore] | None = None) -> dict[str, list[Showing]]:
    """Have people score by turns; return what each was shown. Rows are added to ``scores``."""
    scores = [] if scores is None else scores
    found: dict[str, list[Showing]] = {name: [] for name in turns}
    for name in turns:
        showing = next_showing(queue, name, scores)
        if showing is not None:
            found[name].append(showing)
            scores += scores_of(queue, name, showing)
    return found


def scorers(scores: list[HumanScore]) -> Counter[str]:
    return Counter(item for item, _ in {(one.item_id, one.annotator) for one in scores})


# The order of one annotator --------------------------------------------------------------------------------


def test_an_order_is_the_same_at_each_call_and_another_for_another_name() -> None:
    queue = queue_of(60)
    orders = {name: showings(queue, name) for name in ("Anna", "anna", "Ben", "Jürgen", "0", "")}
    assert all(showings(queue_of(60), name) == order for name, order in orders.items())
    assert len({tuple(ids(order)) for order in orders.values()}) == len(orders)
    for order in orders.values():
        assert sorted(ids(order)) == sorted(queue.by_id)
        assert [one.position for one in order] == list(range(1, len(order) + 1))


def test_another_seed_is_another_order() -> None:
    assert ids(showings(queue_of(60), "anna")) != ids(showings(queue_of(60, seed=8), "anna"))


@pytest.mark.parametrize("repeats", [0.05, 0.07, 0.1])
@pytest.mark.parametrize("count", [11, 12, 40, 101, 400])
def test_repeats_are_the_wanted_share_and_well_apart(count: int, repeats: float) -> None:
    for name in ("anna", "ben", "carla"):
        order = showings(queue_of(count, repeats=repeats), name)
        again = ids(order, 2)
        assert len(again) == min(ceil(round(repeats * count, 6)), count - APART)
        assert len(set(again)) == len(again)
        for place, one in enumerate(order):
            if one.showing == 2:
                before = order[:place]
                first = next(n for n, was in enumerate(before) if was.item == one.item)
                assert len([was for was in before[first + 1 :] if was.showing == 1]) >= APART


def test_where_repeats_come_cannot_be_counted_out() -> None:
    orders = [showings(queue_of(400), f"a{n}") for n in range(20)]
    places = [tuple(one.position for one in order if one.showing == 2) for order in orders]
    assert len(set(places)) == len(places)
    steps = Counter(b - a for one in places for a, b in pairwise(one))
    assert len(steps) > 10


@pytest.mark.parametrize("count", [0, 1, 2, APART])
def test_few_items_have_no_repeats(count: int) -> None:
    assert ids(showings(queue_of(count), "anna"), 2) == []


def test_no_repeats_where_none_are_wanted() -> None:
    assert ids(showings(queue_of(100, repeats=0.0), "anna"), 2) == []


def test_sides_of_pairs_are_drawn_and_turned_round_in_the_repeat() -> None:
    items = [item_of(n, rival=f"At dusk, {n}.") for n in range(400)]
    order = showings(queue_of(items, repeats=0.1), "anna")
    first = {one.item.item_id: one.swapped for one in order if one.showing == 1}
    assert 150 < sum(first.values()) < 250
    repeats = [one for one in order if one.showing == 2]
    assert repeats
    assert all(one.swapped is not first[one.item.item_id] for one in repeats)
    assert not any(one.swapped for one in showings(queue_of(40), "anna"))


def test_a_sheet_for_each_of_some_shares_the_work() -> None:
    queue = queue_of(100)
    names = ["anna", "ben", "carla"]
    found = Counter(one for name in names for one in ids(showings(queue, name, names)))
    assert Counter(found.values()) == {1: 80, 2: 20}
    assert found.keys() == queue.by_id.keys()
    shares = [len(ids(showings(queue, name, names))) for name in names]
    assert max(shares) < 2 * min(shares)


# What comes next -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 15, 60])
def test_alone_one_goes_through_all_of_it(count: int) -> None:
    queue = queue_of(count)
    found = work(queue, ["anna"] * (2 * count + 2))["anna"]
    assert sorted(ids(found)) == sorted(queue.by_id)
    assert [one.position for one in found] == list(range(1, len(found) + 1))
    expected = showings(queue, "anna")
    assert found == expected, "what the sheet says is what the page shows, if nobody else scores"


@pytest.mark.parametrize("names", [*combinations(["anna", "Anna", "ben", "carla"], 2), ("a", "b", "c")])
def test_together_each_item_is_scored_as_often_as_wanted(names: tuple[str, ...]) -> None:
    queue, scores = queue_of(80), list[HumanScore]()
    found = work(queue, list(names) * 200, scores)
    assert Counter(scorers(scores).values()) == {1: 64, 2: 16}
    done = [len(ids(one)) for one in found.values()]
    assert max(done) <= 1.5 * min(done)
    assert all(next_showing(queue, name, scores) is None for name in names)
    for shown in found.values():
        assert len(ids(shown, 2)) >= 0.05 * len(ids(shown)) - 1


def test_at_any_time_the_wanted_share_is_scored_twice() -> None:
    queue, scores = queue_of(300), list[HumanScore]()
    for _ in range(12):
        work(queue, ["anna", "ben"] * 15, scores)
        counts = scorers(scores)
        twice = sum(number == 2 for number in counts.values())
        assert twice >= 0.1 * len(counts)
        assert len(scores) < 100 or twice >= 0.17 * len(counts)
    assert twice >= 0.2 * len(counts)


def test_who_joins_late_takes_over_and_nothing_is_lost() -> None:
    queue, scores = queue_of(60), list[HumanScore]()
    work(queue, ["anna"] * 20, scores)
    before = scorers(scores)
    work(queue, ["anna", "ben", "carla"] * 60, scores)
    assert Counter(scorers(scores).values())[2] >= 12
    assert scorers(scores).keys() == queue.by_id.keys()
    assert before.keys() <= scorers(scores).keys()


@pytest.mark.parametrize("left_after", [1, 10, 30])
def test_who_leaves_leaves_nothing_unscored(left_after: int) -> None:
    queue, scores = queue_of(60), list[HumanScore]()
    work(queue, ["anna", "ben"] * left_after, scores)
    work(queue, ["ben"] * 200, scores)
    assert scorers(scores).keys() == queue.by_id.keys()
    assert next_showing(queue, "ben", scores) is None


def test_under_another_name_one_goes_on_with_what_is_left() -> None:
    queue, scores = queue_of(60), list[HumanScore]()
    work(queue, ["anna"] * 30, scores)
    shown = work(queue, ["anna-2"] * 200, scores)["anna-2"]
    assert len(ids(shown)) < 60, "what is scored once is not scored again, but for the part that two score"
    assert scorers(scores).keys() == queue.by_id.keys()


def test_three_people_and_one_item() -> None:
    queue, scores = queue_of(1), list[HumanScore]()
    found = work(queue, ["a", "b", "c"], scores)
    assert [len(shown) for shown in found.values()] == [1, 1, 0], "one item of one is the part that two score"
    queue = queue_of(1, twice=0.0)
    assert [len(shown) for shown in work(queue, ["a", "b", "c"]).values()] == [1, 0, 0]


def test_a_reload_goes_on_where_one_was() -> None:
    queue, scores = queue_of(40), list[HumanScore]()
    for _ in range(25):
        shown = next_showing(queue, "anna", scores)
        assert shown is not None
        assert next_showing(queue_of(40), "anna", list(scores)) == shown
        scores += scores_of(queue, "anna", shown)


def test_what_was_half_scored_comes_first() -> None:
    queue = queue_of(40, {"points": Points(), "tone": Points(ask="How kind is it?")})
    scores = list[HumanScore]()
    work(queue, ["anna", "ben"] * 3, scores)
    shown = next_showing(queue, "anna", scores)
    assert shown is not None
    scores.append(scores_of(queue, "anna", shown)[0])
    work(queue, ["ben"] * 5, scores)
    assert next_showing(queue, "anna", scores) == shown
    scores.append(scores_of(queue, "anna", shown)[1])
    after = next_showing(queue, "anna", scores)
    assert after is not None
    assert after.item != shown.item
    assert after.position == shown.position + 1


def test_what_is_taken_back_is_shown_again() -> None:
    queue, scores = queue_of(40), list[HumanScore]()
    shown = work(queue, ["anna"] * 8, scores)["anna"]
    scores += scores_of(queue, "anna", shown[-1], value=lambda _: None, status="withdrawn")
    assert next_showing(queue, "anna", scores) == shown[-1]
    assert showing_of(queue, "anna", shown[3].item.item_id, 4) == shown[3]


def test_what_one_skips_another_scores() -> None:
    queue, scores = queue_of(12, twice=0.0), list[HumanScore]()
    shown = next_showing(queue, "anna", scores)
    assert shown is not None
    scores += scores_of(queue, "anna", shown, value=lambda _: None, status="skipped")
    assert progress(queue, "anna", scores).scored == 0
    found = work(queue, ["anna"] * 30, scores)["anna"]
    assert shown.item.item_id not in ids(found, 1) + ids(found, 2)
    (rest,) = work(queue, ["ben"] * 30, scores)["ben"]
    assert rest.item == shown.item


@pytest.mark.parametrize("other", [{"rubric_version": "old"}, {"rubric": "gone"}, {"item_id": "gone"}])
def test_scores_by_another_wording_or_of_another_item_count_for_nothing(other: dict[str, Any]) -> None:
    queue = queue_of(30)
    shown = next_showing(queue, "anna", [])
    assert shown is not None
    scores = [replace(one, **other) for one in scores_of(queue, "anna", shown)]
    assert next_showing(queue, "anna", scores) == shown
    assert progress(queue, "anna", scores).shown == 0


def test_a_queue_of_other_items_keeps_the_scores_of_those_that_stayed() -> None:
    scores = list[HumanScore]()
    work(queue_of(30), ["anna"] * 20, scores)
    done = {one.item_id for one in scores}
    newer = queue_of([item_of(n) for n in [*range(1, 30), 77, 78]])
    found = work(newer, ["anna"] * 60, scores)["anna"]
    assert not set(ids(found)) & done
    assert set(ids(found)) | done >= newer.by_id.keys()


def test_progress_counts_down_to_nothing() -> None:
    queue, scores = queue_of(50), list[HumanScore]()
    start = progress(queue, "anna", scores)
    assert (start.shown, start.left, start.scored, start.items) == (0, 50 + 3, 0, 50)
    left = start.left
    while (shown := next_showing(queue, "anna", scores)) is not None:
        scores += scores_of(queue, "anna", shown)
        now = progress(queue, "anna", scores)
        assert (now.shown, now.left) == (shown.position, left - 1)
        left = now.left
    assert progress(queue, "anna", scores).scored == 40, "a fifth waits for a second annotator"
    assert progress(queue, "ben", scores).left == 10


def test_the_more_disputed_come_sooner_to_everybody() -> None:
    queue = queue_of(200, order="disputed", twice=0.2)
    places = {one: place for place, one in enumerate(queue.by_id)}
    for name in ("anna", "ben"):
        order = ids(showings(queue, name))
        early = [places[one] for one in order[:40]]
        late = [places[one] for one in order[-40:]]
        assert max(early) < min(late)
    assert ids(showings(queue, "anna")) != ids(showings(queue, "ben"))
