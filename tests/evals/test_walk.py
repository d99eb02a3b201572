"""Edits one after the other in one home: after each, it shows what an empty home shows.

A longer walk, by other edits: `WALK_STEPS=60 WALK_SEED=2 python -m pytest tests/evals/test_walk.py`.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Callable

import pytest
import yaml

from tests.evals.test_names import TWO, shown
from tests.fakes.tiny import TEXTS
from tests.fakes.town import PLAIN, QUESTIONS, Town, Variant

pytestmark = pytest.mark.models
AXES = ("chunkings", "embedders", "retrievers", "generators")
STEPS = int(os.environ.get("WALK_STEPS", "5"))
SEED = int(os.environ.get("WALK_SEED", "3"))


class Walk:
    """A study, its documents and its questions, which change by seeded edits."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.variant: Variant = copy.deepcopy(PLAIN)
        self.texts = dict(TEXTS)
        self.questions = yaml.safe_load(QUESTIONS)
        self.edits: list[Callable[[], None]] = [
            *(self.add, self.remove, self.exchange, self.rename, self.turn),
            *(self.metrics, self.restrict, self.text, self.question),
        ]

    def axis(self) -> tuple[str, list[tuple[str, object]]]:
        axis = self.random.choice(AXES)
        return axis, list(self.variant[axis].items())

    def add(self) -> None:
        axis, parts = self.axis()
        name = self.random.choice(["one", "other"])
        recipe = self.random.choice(list(TWO[axis].values()))
        self.variant[axis] = dict([*parts, (name, copy.deepcopy(recipe))][-2:])

    def remove(self) -> None:
        axis, parts = self.axis()
        self.variant[axis] = dict(parts[-1:])

    def exchange(self) -> None:
        axis, parts = self.axis()
        names, recipes = zip(*parts, strict=True)
        self.variant[axis] = dict(zip(names, reversed(recipes), strict=True))

    def rename(self) -> None:
        axis, parts = self.axis()
        (_, recipe), *others = parts
        self.variant[axis] = dict([(self.random.choice(["first", "new"]), recipe), *others])

    def turn(self) -> None:
        axis, parts = self.axis()
        self.variant[axis] = dict(reversed(parts))

    def metrics(self) -> None:
        found = ["ndcg@10", "evidence_coverage@5", "abstention", "mrr@10", "tokens"]
        self.variant["metrics"] = self.random.sample(found, self.random.randint(1, len(found)))

    def restrict(self) -> None:
        self.variant["restrict"] = {next(iter(self.variant["generators"])): {"sample": 2}}
        self.variant["seed"] = self.random.choice([7, 8])

    def text(self) -> None:
        one, other = self.random.sample(sorted(self.texts), 2)
        self.texts[one], self.texts[other] = self.texts[other], f"{self.texts[one]} It is late."

    def question(self) -> None:
        rows = self.questions["questions"]
        one, other = self.random.sample(rows, 2)
        one["question"], other["question"] = other["question"], one["question"] + " And why?"
        self.random.shuffle(rows)

    def step(self) -> str:
        """Do one to three edits and return the study as it is then."""
        for edit in self.random.sample(self.edits, self.random.randint(1, 2)):
            edit()
        known = self.variant["generators"]
        limits = self.variant.pop("restrict", {})
        self.variant |= {"restrict": {name: one for name, one in limits.items() if name in known}}
        return yaml.safe_dump([self.variant, self.texts, self.questions])


def test_after_each_edit_a_home_shows_what_an_empty_one_shows(town: Town) -> None:
    walk = Walk(SEED)
    seen: list[str] = []
    for _ in range(STEPS):
        if len(seen) > 2 and walk.random.random() < 0.25:
            back = walk.random.choice(seen)
            walk.variant, walk.texts, walk.questions = yaml.safe_load(back)
        else:
            seen.append(walk.step())
        (town.folder / "ferry.questions.yaml").write_text(yaml.safe_dump(walk.questions))
        found = shown(town.run(walk.variant, "home", docs=walk.texts))
        shutil.rmtree(town.folder / "empty", ignore_errors=True)
        assert found == shown(town.run(walk.variant, "empty", docs=walk.texts)), seen[-1]
