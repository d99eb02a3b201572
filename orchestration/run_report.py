"""What happened in one run over the stages of a study."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

REASONS = 5  # why a stage failed: so many are shown
FIRST = 20  # failed keys of a stage that the text of a failed step names


@dataclass
class StageReport:
    """What happened to one stage.

    built: keys computed now; reused: stale for Dagster only, or found among older artifacts
    failed: key -> why; left_out: key -> which failed key it needs
    sentences: sentences on what was computed
    names: the keys that were walked, where they are known
    gaps: upstream stages of which keys are missing, where the stage is built without them
    """

    stage: str
    keys: int
    fresh: int = 0
    built: int = 0
    reused: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    build_seconds: float = 0.0
    seconds: float = 0.0
    names: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        return bool(self.failed or self.left_out or self.gaps)

    @property
    def left_out_sentence(self) -> str:
        return f"{len(self.left_out)} of {self.keys} {self.stage} were left out: what they need failed"


@dataclass
class RunReport:
    """What happened in one run, stage by stage."""

    stages: list[StageReport] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(stage.failed or stage.left_out for stage in self.stages)

    @property
    def unchanged(self) -> bool:
        return not any(stage.built or stage.reused for stage in self.stages)

    def is_there(self, name: str) -> bool:
        return any(one.stage == name and not (one.failed or one.left_out) for one in self.stages)

    @property
    def built(self) -> int:
        return sum(stage.built for stage in self.stages)


def failure_notes(stages: Iterable[StageReport]) -> tuple[str, ...]:
    notes = []
    for stage in stages:
        for reason, keys in list(by_reason(stage.failed).items())[:REASONS]:
            notes.append(
                f"{len(keys)} of {stage.keys} {stage.stage} failed, first {keys[0]}: {reason.splitlines()[0]}"
            )
        notes += [stage.left_out_sentence] if stage.left_out else []
    return tuple(notes)


def stage_counts(report: StageReport) -> dict[str, int]:
    counts = {
        "keys": report.keys,
        "computed": report.built,
        "found again": report.reused,
        "up to date": report.fresh,
        "failed": len(report.failed),
        "left out": len(report.left_out),
    }
    return {name: number for name, number in counts.items() if number}


def failure_text(report: StageReport) -> str:
    """Return why a step failed: which keys of its stage failed or were left out, and which gaps it has.

    >>> print(failure_text(StageReport("scores", 3, failed={"a": "no key"}, left_out={"b": "", "c": ""})))
    1 of 3 scores failed:
    - a: no key
    2 of 3 scores were left out: what they need failed
    >>> print(failure_text(StageReport("leaderboard", 1, built=1, gaps=("scores",))))
    leaderboard is built with gaps, for some scores failed or were left out
    """
    lines: list[str] = []
    if report.failed:
        lines.append(f"{len(report.failed)} of {report.keys} {report.stage} failed:")
        for reason, keys in by_reason(report.failed).items():
            more = f" and {len(keys) - FIRST} more" if len(keys) > FIRST else ""
            lines.append(f"- {', '.join(keys[:FIRST])}{more}: {reason}")
    if report.left_out:
        lines.append(report.left_out_sentence)
    if report.gaps:
        gaps = ", ".join(report.gaps)
        lines.append(f"{report.stage} is built with gaps, for some {gaps} failed or were left out")
    return "\n".join(lines)


def by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return reason -> the keys that it was given for, the most frequent first; a key's own name is left out.

    >>> by_reason({"a": "no key", "b": "chunks of b: gone", "c": "chunks of c: gone"})
    {'chunks of …: gone': ['b', 'c'], 'no key': ['a']}
    """
    grouped: dict[str, list[str]] = {}
    for key, reason in reasons.items():
        unnamed = re.sub(rf"(?<![\w.-]){re.escape(key)}(?![\w-])", "…", reason)
        grouped.setdefault(unnamed, []).append(key)
    # A key that stays alone keeps its name in its reason.
    named = {reasons[keys[0]] if len(keys) == 1 else reason: keys for reason, keys in grouped.items()}
    return dict(sorted(named.items(), key=lambda item: -len(item[1])))
