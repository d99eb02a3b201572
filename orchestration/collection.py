"""How often Python searches for cycles of objects, in processes that import and hold much."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_AFTER = (50_000, 20, 20)
"""New containers before a search for cycles, and how often older ones are searched too.

Python's own (700, 10, 10) search hundreds of times while modules are imported, of which nothing is garbage.
"""


def collect_seldom() -> None:
    gc.set_threshold(*COLLECT_AFTER)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
