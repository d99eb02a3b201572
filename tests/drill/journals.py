"""Damage to files that only grow: human ratings, and which results a study had; and kills beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.drill.stages import die, killed
from tests.drill.trial import Step, Trial, rebuild, walk


def journals(study: Path, more: Path) -> Iterator[Trial]:
    """Tear lines that a killed writer may have torn, take away what a kill kept from being written.

    more: the study with a further retriever, which comes to have another result
    """
    damage = {
        "a torn line after people's scores": lambda home: begin_line(home, "people/*/scores/*.jsonl"),
        "a torn line after the results": lambda home: begin_line(home, "history/*.jsonl"),
        "the last result is torn": lambda home: _cut(home, half=True),
        "the last result is missing": lambda home: _cut(home, half=False),
        "no results": _no_results,
    }
    for name, disturb in damage.items():
        yield Trial("journal", name, "done", disturb, study, rebuilds=True)
        if name.startswith("a torn line"):
            yield Trial("journal", f"{name}, and more of them", "done", disturb, more)
    for name, trap in {
        "before the result is noted": _killed_at_result(before=True),
        "between the result and its row": _killed_at_result(before=False),
    }.items():
        yield Trial("journal", f"killed {name}", "empty", killed(walk(study), trap), study)
    disturb = killed(rebuild, _killed_at_history())
    yield Trial("journal", "killed as a rebuild reads results", "done", disturb, study)


def _files(home: Path, pattern: str) -> list[Path]:
    found = sorted(home.glob(pattern))
    assert found, f"no file is called {pattern}"
    return found


def begin_line(home: Path, pattern: str) -> None:
    """Begin a line as a writer does that is killed within it."""
    for path in _files(home, pattern):
        with path.open("ab") as file:
            file.write(path.read_bytes().splitlines()[-1][:40])


def _cut(home: Path, *, half: bool) -> None:
    """Take away the last result of each study, or the second half of its line."""
    for path in _files(home, "history/*.jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]) + (lines[-1][: len(lines[-1]) // 2] if half else b""))


def _no_results(home: Path) -> None:
    for path in _files(home, "history/*.jsonl"):
        path.unlink()


def _killed_at_result(*, before: bool) -> Step:
    def trap() -> None:
        from rag_assay.evals.reporting.changes import history_writer

        def at_result(*_given: object) -> bool:
            die()
            return False

        if before:
            history_writer.record_result = at_result  # type: ignore[assignment]
        else:
            from rag_assay.evals import report

            report.write_history = at_result  # type: ignore[assignment]

    return trap


def _killed_at_history() -> Step:
    def trap() -> None:
        from rag_assay.warehouse import tables

        tables.write_history = lambda *_given: die()  # type: ignore[assignment,func-returns-value]

    return trap
