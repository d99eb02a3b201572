"""A slice: a study of its own, made of some cells and some questions of another."""

from __future__ import annotations

from dataclasses import dataclass

MARK = "~"
"""Stands in the names of slices and of their question sets, and in no name that a study file can write."""


def whole_of(name: str) -> str:
    """Return the name of the study that a study, a slice or a rung of a race is, or is of.

    >>> whole_of("demo~5006e3"), whole_of("demo")
    ('demo', 'demo')
    """
    return name.partition(MARK)[0]


@dataclass(frozen=True)
class Layer:
    """What a person chose: patterns of cells (none: all), and `IDS|N|PATTERN` of questions (None: all)."""

    cells: tuple[str, ...] = ()
    questions: str | None = None

    @property
    def options(self) -> str:
        """The layer as options of a command.

        >>> Layer(("*.bm25.*",), "20").options
        "--cells '*.bm25.*' --questions 20"
        """
        cells = [f"--cells '{one}'" for one in self.cells]
        return " ".join([*cells, *([f"--questions {self.questions}"] if self.questions else [])])


@dataclass(frozen=True)
class Slice:
    """What a slice is made of.

    whole: name of the study that it is a slice of
    cells: which of its cells, each by its name without the study; None: all
    questions: ids of the test questions that are asked; None: all
    n_cells, of_cells, n_questions, of_questions: how many those are, of how many of the study
    layers: what was chosen; more than one where a slice was sliced
    """

    whole: str
    cells: frozenset[str] | None
    questions: frozenset[str] | None
    n_cells: int
    of_cells: int
    n_questions: int
    of_questions: int
    layers: tuple[Layer, ...] = ()

    @property
    def sentence(self) -> str:
        """What a reader of its figures must know.

        >>> Slice("demo", None, None, 5, 23, 20, 97).sentence
        "A slice of demo: 5 of 23 cells, 20 of 97 questions; not the study's result."
        """
        return (
            f"A slice of {self.whole}: {self.n_cells} of {self.of_cells} cells, "
            f"{self.n_questions} of {self.of_questions} questions; not the study's result."
        )
