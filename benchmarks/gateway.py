"""What the gateway adds to a model's own time: 320 calls to a scripted server, faults, a second run, a kill.

    python -m benchmarks.gateway [--study STUDY]

The server is a process of its own on loopback that answers each request after 200 ms. 320 calls, 32 in
flight, so take 2.0 s at best. Measured are the seconds of the clock and of the processor: of a bare client,
which says how busy the machine is; of a new gateway, whose first call is alone; of one that has made a call;
again, from the cache; with every fifth request refused (429) and every twentieth dropped; by a server that
takes 8 at once and refuses all others; with 256 in flight; in cells of 12 questions, which are built side by
side; in a process that is killed when half of the answers are there, and in the next one. Targets stand
beside the figures. Then what it costs to listen: the same
calls with drafts, of which the server sends a letter at a time, as a ratio to those without. With a study
that was run and has a cell with a local model: the seconds until the first words of an answer, and until it
is there.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from rag_assay.assets.engine.builder import build_keys
from rag_assay.assets.engine.stage import BuildContext, BuildResult, PartitionRef, Stage
from rag_assay.evals.pipeline.pipeline import open_pipeline
from rag_assay.evals.pipeline.stage_inputs import read_questions
from rag_assay.evals.study.grid import Grid
from rag_assay.evals.study.study_file import read_study, study_path
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.identity import digest
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.gateway import Gateway
from rag_assay.warehouse.inference.local_llm import free_cores
from rag_assay.warehouse.inference.replies import Reply
from rag_assay.warehouse.inference.streaming import PartialAnswer, on_token
from rag_assay.warehouse.paths import Home, home
from rag_assay.warehouse.schemas import Status

CALLS, AT_ONCE, DELAY = 320, 32, 0.2
IDEAL = CALLS / AT_ONCE * DELAY
MANY = 256  # in flight, ten calls each
TAKES = 8  # at once, of a server that refuses more
CELLS, QUESTIONS = 27, 12
FIRST = "first"  # question of the call that shows that the model answers
ASKED = 10  # questions of a local model
PASSAGES = "Some sentence of a passage that the model is to read before it answers. " * 60


class Server:
    """Answers `/KIND/v1/chat/completions` with the question; counts the requests of each kind."""

    def __init__(self) -> None:
        self.asked: dict[str, list[str]] = {}
        self._served = 0

    async def serve(self) -> None:
        """Print the port, and answer until the process is ended."""
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=256)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._request(reader, writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # a client that was killed
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        kind = head[0].split(" ")[1].split("/")[1]
        lengths = [int(line.partition(":")[2]) for line in head if line.lower().startswith("content-length:")]
        body = await reader.readexactly(lengths[0]) if lengths else b""
        if kind == "asked":
            writer.write(_response(200, self.asked))
            return True
        text = json.loads(body)["messages"][0]["content"].rpartition(" ")[2]
        asked = self.asked.setdefault(kind, [])
        asked.append(text)
        number = len(asked)
        if kind == "faulty" and number % 20 == 7:
            return False
        if (kind == "faulty" and number % 5 == 0) or (kind == "eight" and self._served == TAKES):
            writer.write(_response(429, {"error": {"message": "Rate limit reached", "code": "rate_limit"}}))
            return True
        if json.loads(body).get("stream"):
            await _write_stream(writer, f"answer to {text}")
            return True
        self._served += 1
        await asyncio.sleep(DELAY)
        self._served -= 1
        message = {"role": "assistant", "content": f"answer to {text}"}
        usage = {"prompt_tokens": 900, "completion_tokens": 5, "total_tokens": 905}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        writer.write(_response(200, {"model": "scripted", "choices": [choice], "usage": usage}))
        return True


async def _write_stream(writer: asyncio.StreamWriter, text: str) -> None:
    """Write a text in as many pieces as it has letters, over DELAY seconds."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head.encode())
    choices = [{"index": 0, "delta": {"content": letter}} for letter in text]
    chunks: list[dict[str, object]] = [{"model": "scripted", "choices": [one]} for one in choices]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 5}})
    for data in [*map(json.dumps, chunks), "[DONE]"]:
        event = f"data: {data}\n\n".encode()
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
        await asyncio.sleep(DELAY / (len(chunks) + 1))
    writer.write(b"0\r\n\r\n")


def _response(status: int, body: object) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


@contextmanager
def served() -> Iterator[str]:
    """Start the server; yield its address."""
    command = [sys.executable, "-m", "benchmarks.gateway", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 -- a pipe
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def requests(server: str, kind: str) -> list[str]:
    """Return the questions that came in, one a request, without FIRST."""
    with urllib.request.urlopen(f"{server}/asked") as response:  # noqa: S310 -- our own server
        found: dict[str, list[str]] = json.loads(response.read())
    return [name for name in found.get(kind, []) if name != FIRST]


def chat_of(server: str, kind: str, at_once: int = AT_ONCE) -> ChatModel:
    """Return the model that is asked; a kind's requests are counted by themselves."""
    named = {"model": "openai/scripted", "api_base": f"{server}/{kind}/v1"}
    return ChatModel.model_validate({**named, "limits": {"at_once": at_once}})


def question(gateway: Gateway, chat: ChatModel, name: str) -> Reply:
    """Ask one question with a prompt as long as that of an answer; whoever listens hears it."""
    return gateway.ask(chat, [{"role": "user", "content": f"{PASSAGES} {name}"}], drafted=True)


def bare(server: str, names: list[str]) -> tuple[float, float]:
    """Send the same requests from as many threads without any gateway: what the machine gives just now."""
    address = urlsplit(server)
    waiting = iter(names)
    lock = threading.Lock()

    def lane() -> None:
        connection = HTTPConnection(address.hostname or "", address.port)
        while True:
            with lock:
                name = next(waiting, None)
            if name is None:
                return
            body = {"model": "scripted", "messages": [{"role": "user", "content": f"{PASSAGES} {name}"}]}
            connection.request("POST", "/bare/v1/chat/completions", json.dumps(body))
            json.loads(connection.getresponse().read())

    begin, cpu = time.perf_counter(), time.process_time()
    lanes = [threading.Thread(target=lane) for _ in range(AT_ONCE)]
    for one in lanes:
        one.start()
    for one in lanes:
        one.join()
    return time.perf_counter() - begin, time.process_time() - cpu


def ask_all(home: Path, chat: ChatModel, names: list[str], *, warm: bool = False) -> tuple[float, float, int]:
    """Ask all questions; return the seconds of the clock and of the processor, and the right answers.

    warm: the gateway has made a call before
    """
    with Gateway(Home(home)) as gateway:
        if warm:
            question(gateway, chat, FIRST)
        begin, cpu = time.perf_counter(), time.process_time()
        replies = list(gateway.map(lambda name: question(gateway, chat, name), names, chat))
        seconds = time.perf_counter() - begin, time.process_time() - cpu
    right = [
        reply.status is Status.OK and reply.text == f"answer to {name}"
        for reply, name in zip(replies, names, strict=True)
    ]
    return *seconds, sum(right)


class Cells(Stage):
    """As many cells as the answers of a small grid, each of a few questions."""

    name = "cells"
    group = "bench"
    description = "cells of a few questions"

    def __init__(self, chat: ChatModel) -> None:
        self.chat = chat
        self.gateway: Gateway | None = None

    def keys(self) -> list[str]:
        """Return the cells."""
        return [f"cell-{number:02}" for number in range(CELLS)]

    def needs(self, key: str) -> list[PartitionRef]:
        """Return nothing."""
        return []

    def recipes(self, key: str) -> dict[str, str]:
        """Return the cell itself."""
        return {"cell": digest(key)}

    def waits_for_servers(self, key: str) -> bool:
        """Return that all do."""
        return True

    def build(self, key: str, folder: Path, work: BuildContext) -> BuildResult:
        """Ask the questions of a cell."""
        names = [f"{key}-{number}" for number in range(QUESTIONS)]
        gateway = self.gateway = self.gateway or Gateway(work.home)  # one a run, as that of a study
        replies = list(gateway.map(lambda name: question(gateway, self.chat, name), names, self.chat))
        (folder / "answers.json").write_text(json.dumps([reply.text for reply in replies]))
        return BuildResult(digest([reply.text for reply in replies]))


def _told(name: str, seconds: float, cpu: float, more: str, ideal: float = IDEAL) -> None:
    times = f"{seconds:6.2f} s, {seconds / ideal:5.2f} x ideal, {cpu:5.2f} s of the processor"
    print(f"{name:<26}{times}; {more}", flush=True)


def _against(what: str, value: float, target: float, unit: str) -> str:
    """Return a figure beside its target."""
    return f"{what} {value:.2f} {unit} (target {target:.2f}: {'met' if value <= target else 'MISSED'})"


def under_load(server: str, scratch: Path, names: list[str]) -> None:
    """Print what a gateway that has made a call needs for a healthy, a faulty and a small server."""
    cases = (
        ("healthy", f"{CALLS} calls, {AT_ONCE} at once", IDEAL, 1.10, 1.0),
        ("faulty", "20 % 429, 5 % dropped", IDEAL, 2.0, 1.4),
        ("eight", f"takes {TAKES} at once, else 429", CALLS / TAKES * DELAY, 1.15, None),
    )
    for kind, name, ideal, target, most in cases:
        seconds, cpu, right = ask_all(scratch / f"warm-{kind}", chat_of(server, kind), names, warm=True)
        found = requests(server, kind)
        each, most_for_one = len(found) / CALLS, max(Counter(found).values())
        asked = _against("requests", each, most, "a call") if most else f"requests {each:.2f} a call"
        _told(name, seconds, cpu, f"{right} right, at most {most_for_one} requests for one", ideal)
        print(" " * 26 + _against("time", seconds / ideal, target, "x ideal") + f"; {asked}", flush=True)
    many = [f"many-{number}" for number in range(10 * MANY)]
    chat = chat_of(server, "many", MANY)
    seconds, cpu, right = ask_all(scratch / "many", chat, many, warm=True)
    _told(f"{len(many)} calls, {MANY} at once", seconds, cpu, f"{right} right")
    print(" " * 26 + _against("processor", cpu / len(many) * 1000, 0.5, "ms a call"), flush=True)


def kill_midway(server: str, scratch: Path, names: list[str]) -> None:
    """Kill a process at half of its calls, and let another one go on."""
    command = [sys.executable, "-m", "benchmarks.gateway", "--client", server, "killed", str(scratch)]
    with subprocess.Popen(command) as process:
        while len(requests(server, "killed")) < CALLS // 2:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    first = len(requests(server, "killed"))
    kept = len(list(CallCache(Home(scratch)).rows()))
    *_, right = ask_all(scratch, chat_of(server, "killed"), names)
    second = requests(server, "killed")[first:]
    print(
        f"killed midway             {first} requests, {kept} answers kept; then {len(second)} requests "
        f"for the {CALLS - kept} others, {right} of {CALLS} right"
    )


def listening(server: str, scratch: Path, names: list[str]) -> None:
    """Ask with a listener and without, in turn; print the ratio of the two."""
    spent: dict[str, list[tuple[float, float]]] = {"whole": [], "heard": []}
    n_drafts = 0

    def hear(_draft: PartialAnswer) -> None:
        nonlocal n_drafts
        n_drafts += 1

    for turn in range(3):
        for kind, times in spent.items():
            with on_token(hear) if kind == "heard" else nullcontext():
                seconds, cpu, right = ask_all(scratch / f"{kind}{turn}", chat_of(server, kind), names)
            times.append((seconds, cpu))
            if right != len(names):
                print(f"{kind}: {len(names) - right} of {len(names)} answers are wrong")
    best = {
        kind: (min(one[0] for one in times), min(one[1] for one in times)) for kind, times in spent.items()
    }
    (whole, whole_cpu), (heard, heard_cpu) = best["whole"], best["heard"]
    words = f"drafts of {len(names)} calls".ljust(26)
    print(
        f"{words}{heard:6.2f} s, {heard / whole:.2f} x without, {heard_cpu:5.2f} s of the processor, ", end=""
    )
    print(f"{heard_cpu / whole_cpu:.2f} x without; {n_drafts / 3 / len(names):.1f} drafts a call")


def first_words(name: str, scratch: Path) -> None:
    """Ask a local model's cell of a study ten of its questions; print when the first words came."""
    study = read_study(study_path(name))
    cell = next(
        cell
        for cell in study.cells()
        if cell.reads_ranking and (chat := study.generators[cell.generator].chat) and chat.is_local
    )
    work = BuildContext(home())
    first, whole = [], []
    try:
        found = [work.store.current("questions", key) for key in Grid([study]).set_keys(study.study)]
        rows = read_questions([one for one in found if one], work).head(ASKED + 1).iter_rows(named=True)
        with (
            open_pipeline(study, cell, work) as opened,
            Gateway(Home(scratch), local_threads=free_cores()) as gateway,  # nothing is in its cache
        ):
            assert opened.context is not None  # noqa: S101 -- the cell has a generator
            pipeline = replace(opened, context=replace(opened.context, gateway=gateway))
            for row in rows:
                seen: list[float] = []

                def hear(draft: PartialAnswer, seen: list[float] = seen) -> None:
                    if draft.text:
                        seen.append(time.perf_counter())

                begin = time.perf_counter()
                with on_token(hear):
                    pipeline.ask_row(row)
                if seen:
                    first.append(seen[0] - begin)
                    whole.append(time.perf_counter() - begin)
    finally:
        work.close()
    print(
        f"{cell.generator} of {study.study}".ljust(26)
        + f"{median(first[1:]):6.2f} s until the first words, {median(whole[1:]):.2f} s until the answer "
        f"(p50 of {len(whole) - 1} questions)"  # the first one starts the model's server
    )


def main(study: str | None) -> None:
    """Print a line a measurement.

    study: one that was run, with a cell that asks a local model; None: no model is asked
    """
    names = [f"question-{number}" for number in range(CALLS)]
    with tempfile.TemporaryDirectory() as name, served() as server:
        scratch = Path(name)
        plain = chat_of(server, "plain")
        _told("a bare client", *bare(server, names), f"{len(requests(server, 'bare'))} requests")
        seconds, cpu, right = ask_all(scratch / "plain", plain, names)
        n_requests = len(requests(server, "plain"))
        _told("new, its first call alone", seconds, cpu, f"{n_requests} requests, {right} right")
        seconds, cpu, right = ask_all(scratch / "plain", plain, names)
        again = len(requests(server, "plain")) - n_requests
        _told("again, from the cache", seconds, cpu, f"{again} requests, {right} right")
        under_load(server, scratch, names)
        begin, used = time.perf_counter(), time.process_time()
        cells = Cells(chat_of(server, "cells"))
        outcomes = list(build_keys(cells, Cells(plain).keys(), BuildContext(Home(scratch))))
        seconds, cpu = time.perf_counter() - begin, time.process_time() - used
        built = f"{len(requests(server, 'cells'))} requests, {sum(one.ok for one in outcomes)} cells built"
        ideal = CELLS * QUESTIONS / AT_ONCE * DELAY
        _told(f"{CELLS} cells of {QUESTIONS} questions", seconds, cpu, built, ideal)
        kill_midway(server, scratch / "killed", names)
        listening(server, scratch, names)
        if study is not None:
            first_words(study, scratch / "words")


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        asyncio.run(Server().serve())
    elif sys.argv[1:2] == ["--client"]:
        chat, asked = chat_of(sys.argv[2], sys.argv[3]), [f"question-{number}" for number in range(CALLS)]
        ask_all(Path(sys.argv[4]), chat, asked)
    else:
        main(sys.argv[2] if sys.argv[1:2] == ["--study"] else None)
