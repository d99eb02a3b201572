"""What a user waits for: `assay try` on a terminal of 100 columns and 30 rows, measured and recorded.

    python -m benchmarks.trial FOLDER [--cast FILE] [--gif FILE]

Prints the seconds, by the clock and of the processor, until the first pipelines are ranked and until the end,
and then the last screen. `--cast` writes what was seen for asciinema, `--gif` draws it. A trial begins in an
empty workspace; the weights of models are fetched first.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.fakes.processes import assay_command
from tests.fakes.terminal import Screen, Terminal

COLUMNS, ROWS = 100, 30
RANKED = "best so far first"
FRAME = 1.0  # seconds between two pictures at least
LETTER, LINE = 8, 17  # pixels
LONGEST, END = 1.0, 8.0  # seconds that a picture is shown at most, and the last one
FONT = "DejaVuSansMono.ttf"


class Written(NamedTuple):
    """What a command has written, and when."""

    seconds: float
    text: str


class Recording(NamedTuple):
    """What a command wrote on a terminal.

    first: seconds by the clock and of the processor until RANKED was written; None: it never was
    """

    code: int
    written: list[Written]
    first: tuple[float, float] | None
    seconds: float
    processor: float


def record(command: Sequence[str], home: Path) -> Recording:
    """Run a command on a terminal, in a workspace."""
    begin, before = time.monotonic(), _of_children()
    written: list[Written] = []
    first = None
    with Terminal(command, {"ASSAY_HOME": str(home)}, columns=COLUMNS, rows=ROWS) as terminal:
        seen = 0
        while terminal.read(1800):
            at = time.monotonic() - begin
            text = terminal.written[seen:].replace(str(home), "var")  # a recording is shown elsewhere
            seen = len(terminal.written)
            written.append(Written(at, text))
            if first is None and RANKED in text:
                first = at, _of_process(terminal.process.pid)
        code = terminal.ended()
    return Recording(code, written, first, time.monotonic() - begin, _of_children() - before)


def _of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _of_process(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def frames(recording: Recording) -> Iterator[tuple[float, str]]:
    """Yield for each picture how many seconds it is shown, and its lines."""
    screen, shown, since = Screen("", COLUMNS, ROWS), "", 0.0
    for seconds, text in recording.written:
        screen.write(text)
        if seconds - since >= FRAME:
            if shown:
                yield min(LONGEST, seconds - since), shown
            shown, since = "\n".join(screen.last), seconds
    yield END, "\n".join(screen.last)


def write_cast(recording: Recording, path: Path) -> None:
    """Write a recording as asciinema's text, version 2: a whole screen an event."""
    lines: list[object] = [{"version": 2, "width": COLUMNS, "height": ROWS}]
    at = 0.0
    for seconds, screen in frames(recording):
        lines.append([round(at, 2), "o", "\x1b[2J\x1b[H" + screen.replace("\n", "\r\n")])
        at += seconds
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")


def draw(recording: Recording, path: Path) -> None:
    """Draw a recording as an animated GIF."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(FONT, 13)
    pictures, durations = [], []
    for seconds, screen in frames(recording):
        picture = Image.new("1", (COLUMNS * LETTER + 16, ROWS * LINE + 16), 1)
        ImageDraw.Draw(picture).multiline_text((8, 8), screen, 0, font, spacing=2)
        pictures.append(picture)
        durations.append(int(1000 * seconds))
    pictures[0].save(
        path, save_all=True, append_images=pictures[1:], duration=durations, loop=0, optimize=True
    )


def main() -> None:
    """Record a trial, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--cast", type=Path)
    parser.add_argument("--gif", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = record(assay_command("try", given.target), Path(folder))
    if found.first:
        print(f"first ranking: {found.first[0]:.1f} s, {found.first[1]:.1f} s of the processor")
    print(
        f"in all: {found.seconds:.1f} s, {found.processor:.1f} s of the processor, exit code {found.code}\n"
    )
    print("\n".join(Screen("".join(one.text for one in found.written), COLUMNS, ROWS).last))
    if given.cast:
        write_cast(found, given.cast)
    if given.gif:
        draw(found, given.gif)


if __name__ == "__main__":
    main()
