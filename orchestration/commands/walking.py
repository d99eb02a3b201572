"""Walks the stages of a study for a command, with bars on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evals.study.study import Study
    from orchestration.run_report import RunReport
    from warehouse.paths import Home


def walk(
    study: Study,
    where: Home,
    only: tuple[str, ...] | None = None,
    *,
    again: bool = False,
    keys: tuple[str, ...] | None = None,
) -> RunReport:
    """Bring the stages of a study up to date (or ``only`` some, of ``keys`` alone), and say how it went."""
    from orchestration.driver import Driver
    from orchestration.progress import Bars
    from orchestration.terminal.showing import show_end

    with Bars() as bars:
        result = Driver(study, where, bars.tell, bars).run(only, again=again, keys=keys)
    show_end(result)
    return result
