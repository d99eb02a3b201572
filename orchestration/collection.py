"""How often Python searches for cycles of objects, in processes that import and hold much."""

import gc

COLLECT_AFTER = (50_000, 20, 20)
"""New containers before a search for cycles, and how often older ones are searched too.

Python's own (700, 10, 10) search hundreds of times while modules are imported, of which nothing is garbage.
"""


def collect_seldom() -> None:
    """Search less often."""
    gc.set_threshold(*COLLECT_AFTER)
