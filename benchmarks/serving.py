"""Response times of `assay serve`: 32 clients for a minute, then 2,000 connections with half a request.

    python -m benchmarks.serving --clients 32 --seconds 60

One pipeline of the demo study (three sites in two languages, MiniLM, `hybrid`, `extractive`) is run, then
served by `assay serve` in a process of its own. Each client sends the demo's questions to
`/v1/chat/completions` one after another without a pause; each question is another text, so that none comes
from a cache. `/health` is asked twice a second meanwhile. Targets: no error, p95 at most twice p50, `/health`
within a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import httpx
import numpy as np
import yaml

HALF_OPEN = 2_000
HALF = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nhalf"
SLOWEST_HEALTH = 1.0  # seconds
DEMO = Path(__file__).parents[1] / "evals" / "studies"
WHAT = {
    "chunkings": {"t128": {"tokens": {"size": 128, "overlap": 42}}},
    "embedders": {"minilm": {"model": "all-MiniLM-L6-v2"}},
    "retrievers": {"hybrid": {"hybrid": {"k": 50}}},
    "generators": {"extractive": {"extractive": {"context_tokens": 2000, "max_tokens": 80}}},
    "metrics": ["ndcg@10"],
}
CELL = "t128.minilm.hybrid.extractive"


def study_file(folder: Path) -> tuple[Path, list[str]]:
    """Write one pipeline of the demo study; return its path, and the questions."""
    demo = yaml.safe_load((DEMO / "demo.yaml").read_text(encoding="utf-8"))
    files = [DEMO / one["file"] for one in demo["questions"]]
    study = {name: demo[name] for name in ("sources", "corpus")} | WHAT
    study |= {"study": "serving", "questions": [{"file": str(file)} for file in files]}
    path = folder / "serving.yaml"
    path.write_text(yaml.safe_dump(study), encoding="utf-8")
    sets = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    return path, [one["question"] for found in sets for one in found["questions"]]


@contextmanager
def served(study: Path) -> Iterator[str]:
    """Run the study and serve it; yield the server's address."""
    assay = [sys.executable, "-m", "rag_assay.orchestration.start"]
    subprocess.run([*assay, "run", str(study)], check=True, stdout=subprocess.DEVNULL)
    command = [*assay, "serve", str(study), CELL, "--port", "0"]
    log = study.with_suffix(".log")
    with (
        log.open("w") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None  # noqa: S101 -- a pipe
        try:
            url = process.stdout.readline().strip()
            if not url:
                raise SystemExit(log.read_text())
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


async def load(url: str, questions: Sequence[str], clients: int, seconds: float) -> bool:
    """Let all clients ask; print what came of it; return whether it keeps to the targets."""
    times, statuses = list[float](), Counter[str]()
    health, numbers = list[float](), count()
    limits = httpx.Limits(max_connections=clients + 1, max_keepalive_connections=clients + 1)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits, trust_env=False) as client:
        model = (await client.get("/health")).json()["model"]

        async def ask() -> str:
            number = next(numbers)
            text = f"{questions[number % len(questions)]} ({number})"
            body = {"model": model, "messages": [{"role": "user", "content": text}]}
            try:
                response = await client.post("/v1/chat/completions", json=body)
            except httpx.HTTPError as error:
                return type(error).__name__
            is_whole = response.status_code == 200 and response.json()["assay"]["status"] in {"ok", "refused"}
            return "ok" if is_whole else f"HTTP {response.status_code}"

        async def one() -> None:
            while time.monotonic() < until:
                begin = time.perf_counter()
                statuses[await ask()] += 1
                times.append(time.perf_counter() - begin)

        async def watch() -> None:
            while time.monotonic() < until:
                begin = time.perf_counter()
                statuses["ok" if (await client.get("/health")).is_success else "health"] += 1
                health.append(time.perf_counter() - begin)
                await asyncio.sleep(0.5)

        statuses[await ask()] += 1  # what is loaded at the first question
        statuses.clear()
        begin = time.monotonic()
        until = begin + seconds
        await asyncio.gather(watch(), *(one() for _ in range(clients)))
        took = time.monotonic() - begin
    p50, p95, p99 = (float(value) for value in np.quantile(times, (0.5, 0.95, 0.99)))
    errors = statuses.total() - statuses["ok"]
    print(f"{len(times)} answers to {clients} clients in {took:.0f} s: {len(times) / took:.1f} a second")
    print(
        f"p50 {p50:.2f} s, p95 {p95:.2f} s ({p95 / p50:.2f} x p50), p99 {p99:.2f} s, max {max(times):.2f} s"
    )
    print(f"errors: {errors} {dict(statuses - Counter(ok=statuses['ok'])) or ''}")
    print(f"/health meanwhile: longest {max(health) * 1000:.0f} ms")
    return not errors and p95 <= 2 * p50 and max(health) < SLOWEST_HEALTH


def half_open(url: str, n: int) -> bool:
    """Open connections that send half a request; return whether `/health` is answered in time meanwhile."""
    address = httpx.URL(url)
    seconds = []
    with ExitStack() as stack:
        for number in range(1, n + 1):
            one = stack.enter_context(
                socket.create_connection((address.host, address.port or 80), timeout=60)
            )
            one.sendall(HALF)
            if number % 100 == 0:
                begin = time.perf_counter()
                httpx.get(f"{url}/health", timeout=60, trust_env=False).raise_for_status()
                seconds.append(time.perf_counter() - begin)
    print(f"/health with up to {n:,} half-sent requests: longest {max(seconds) * 1000:.0f} ms")
    return max(seconds) < SLOWEST_HEALTH


def main() -> None:
    """Measure, in a home of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name:
        models = Path(os.environ.get("ASSAY_MODELS") or Path(os.environ.get("ASSAY_HOME", "var")) / "models")
        os.environ["ASSAY_MODELS"] = str(models.resolve())
        os.environ["ASSAY_HOME"] = str(Path(name) / "var")
        study, questions = study_file(Path(name))
        with served(study) as url:
            is_good = asyncio.run(load(url, questions, arguments.clients, arguments.seconds))
            is_good = half_open(url, HALF_OPEN) and is_good
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
