"""How fast a crawl is, whether it keeps its memory, and that a second one downloads no body.

A site of generated articles is served on loopback by another process; the crawl is `python -m crawlers`,
as Dagster starts it, without a delay. Printed: pages a second (from the first request to the last answer, and
with starting and storing the manifest), growth of the crawling process over the last 1,000 pages, bytes of
bodies that the site sent, lists of links included, and the load of the machine, without which the speed says
nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rag_assay.warehouse.pages import read_manifest
from rag_assay.warehouse.paths import Home

ROOT = Path(__file__).resolve().parent.parent
PER_INDEX = 50
LAST = 1000
TARGETS = {"pages/s": 150, "growth MB": 30}
WORDS = [
    "harbour",
    "pilot",
    "ferry",
    "mooring",
    "tide",
    "library",
    "bakery",
    "council",
    "permit",
    "storm",
    "lamp",
    "winter",
]


def article(number: int) -> bytes:
    """Return one page of about 6 kB, which links to its neighbours and back to an index."""
    paragraphs = "".join(
        f"<p>{' '.join(WORDS[(number * 7 + line * 3 + word) % len(WORDS)] for word in range(60))}.</p>"
        for line in range(12)
    )
    links = "".join(f'<li><a href="/a/{max(0, number - near)}">{near}</a></li>' for near in range(1, 11))
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Article {number}</title>'
        f'<meta property="og:type" content="article"><meta name="author" content="A. Writer">'
        f'</head><body><nav><a href="/">Home</a><a href="/index/{number // PER_INDEX}">Up</a></nav>'
        f"<article><h1>Article {number}</h1>{paragraphs}</article><ul>{links}</ul></body></html>"
    ).encode()


def page(path: str, number: int) -> bytes | None:
    """Return what the site has under a path: the start page, an index, an article, or nothing."""
    kind, _, key = path.strip("/").partition("/")
    if not kind:
        links = "".join(f'<a href="/index/{at}">{at}</a>' for at in range(-(-number // PER_INDEX)))
        return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
    if kind == "index" and key.isdecimal():
        first = int(key) * PER_INDEX
        links = "".join(f'<a href="/a/{at}">{at}</a>' for at in range(first, min(first + PER_INDEX, number)))
        return f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
    return article(int(key)) if kind == "a" and key.isdecimal() and int(key) < number else None


class Site:
    """The site over HTTP/1.1 with connections that stay open; counts requests and bytes of bodies."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.counts = {"requests": 0, "articles": 0, "bytes": 0, "first": 0.0, "last": 0.0}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                writer.write(self.answer(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    def answer(self, head: str) -> bytes:
        """Return the whole answer to one request; 304 where it knows the page's ETag."""
        path = head.split(" ", 2)[1]
        body, etag = page(path, self.number), f'"{path}"'
        now = time.monotonic()
        self.counts["first"] = self.counts["first"] or now
        self.counts["requests"] += 1
        self.counts["last"] = now
        if body is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        self.counts["articles"] += path.startswith("/a/")
        if f"if-none-match: {etag}" in head.lower():
            return f"HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n".encode()
        self.counts["bytes"] += len(body)
        fields = (
            f"Content-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\nETag: {etag}\r\n\r\n"
        )
        return f"HTTP/1.1 200 OK\r\n{fields}".encode() + body


def site_process(pipe: Connection, number: int) -> None:
    """Serve the site; say the port first, then for each word that comes in the counts since the last one."""
    asyncio.run(_site(pipe, number))


async def _site(pipe: Connection, number: int) -> None:
    site = Site(number)
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def asked() -> None:
        try:
            reset = pipe.recv()
        except EOFError:
            loop.remove_reader(pipe.fileno())
            ended.set_result(None)
            return
        pipe.send(dict(site.counts))
        if reset:
            site.counts.update(dict.fromkeys(site.counts, 0))

    loop.add_reader(pipe.fileno(), asked)
    await ended


def counts(pipe: Connection, *, reset: bool = False) -> dict[str, float]:
    """Ask the site for its counts."""
    pipe.send(reset)
    return dict(pipe.recv())


def resident(pid: int) -> float:
    """Return the resident memory of a process in MB; 0 once it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def crawl(spec: Path, home: Home, pipe: Connection, number: int) -> dict[str, Any]:
    """Crawl the site once; return seconds, pages/s, and the process's memory at its last 1,000 pages."""
    counts(pipe, reset=True)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "rag_assay.crawlers", "bench", "--spec", str(spec)],
        cwd=ROOT,
        env={**os.environ, "ASSAY_HOME": str(home.root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen: list[tuple[float, float]] = []  # articles asked for, MB
    while process.poll() is None:
        if memory := resident(process.pid):
            seen.append((counts(pipe)["articles"], memory))
        time.sleep(0.05)
    seconds = time.monotonic() - began
    out = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"the crawl failed: {out}")
    done = counts(pipe)
    before = next(memory for articles, memory in seen if articles >= number - LAST)
    after = [memory for articles, memory in seen if articles <= number][-1]
    at_end = next((memory for articles, memory in seen if articles >= number), after)
    return {
        "seconds": seconds,
        "pages/s": number / (done["last"] - done["first"]),
        "pages/s with start and end": number / seconds,
        "growth MB": at_end - before,
        "peak MB": max(memory for _, memory in seen),
        "requests": done["requests"],
        "bytes": done["bytes"],
        "said": out.strip(),
    }


def main() -> None:
    """Crawl the site twice and print the figures beside their targets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=2000, metavar="N", help="articles of the site")
    number = parser.parse_args().pages
    if number < LAST:
        parser.error(f"--pages: at least {LAST}")
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=site_process, args=(there, number), daemon=True
    )
    server.start()
    there.close()
    base = f"http://127.0.0.1:{here.recv()}"
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        home = Home(Path(name) / "home")
        spec = Path(name) / "bench.json"
        source = {"spider": "news", "start": [f"{base}/"], "delay": 0, "allow_private": True}
        spec.write_text(json.dumps(source))
        load = os.getloadavg()[0]
        first = crawl(spec, home, here, number)
        second = crawl(spec, home, here, number)
        stored = read_manifest(home, "bench").height
    here.close()
    server.join(5)
    show(number, stored, load, first, second)


def show(number: int, stored: int, load: float, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Print what was measured, beside the targets."""
    print(f"{stored} of {number} pages stored; load before {load:.1f}, after {os.getloadavg()[0]:.1f}")
    growth = f"growth over the last {LAST} pages, MB"
    rows = (
        ("pages/s", "pages/s", ".0f", f">= {TARGETS['pages/s']}", ""),
        ("pages/s with start and end", "pages/s with start and end", ".0f", "", ""),
        ("seconds", "seconds", ".1f", "", ""),
        (growth, "growth MB", "+.1f", f"< {TARGETS['growth MB']}", f"< {TARGETS['growth MB']}"),
        ("peak memory, MB", "peak MB", ".0f", "", ""),
        ("requests", "requests", ".0f", "", ""),
        ("bytes of bodies sent", "bytes", ".0f", "", "0"),
    )
    print(f"{'':34}{'first crawl':>14}{'target':>10}{'second crawl':>14}{'target':>10}")
    for title, name, form, *targets in rows:
        one, two = format(first[name], form), format(second[name], form)
        print(f"{title:34}{one:>14}{targets[0]:>10}{two:>14}{targets[1]:>10}".rstrip())
    print(f"{first['said']}\n{second['said']}")
    print(f"targets {'met' if met(first, second) else 'missed'}")


def met(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Tell whether both crawls keep to the targets."""
    return bool(
        first["pages/s"] >= TARGETS["pages/s"]
        and max(first["growth MB"], second["growth MB"]) < TARGETS["growth MB"]
        and second["bytes"] == 0
    )


if __name__ == "__main__":
    main()
