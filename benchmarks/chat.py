"""What a chat costs beside its model: 20 conversations at once with a scripted server, for two minutes.

    python -m benchmarks.chat --seconds 120

The server is a process of its own on loopback, which writes each answer for exactly two seconds, token by
token where it is asked to. 20 people ask without a pause, each in a conversation of their own, every second
question a follow-up; a page reads the drafts meanwhile. Our own overhead is the time from a question to its
kept answer less those: understanding, searching, writing the prompt, waiting for others, citations,
the files. What each answer must say is known, so that one that is mixed up is seen; what was asked is
counted, so that one that is lost is missed, in the files and in DuckDB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_assay.orchestration.question_service.opened_cell import OpenedCell
    from rag_assay.orchestration.question_service.question_service import QuestionService
    from rag_assay.warehouse.conversations import Turn

PEOPLE, BOATS, MODEL_SECONDS, PIECES = 20, 300, 2.0, 60
TARGET = 0.3  # seconds of overhead that 95 % of the answers keep to
_CODE = re.compile(r"code (p\d+q\d+)")  # no number of a boat: a search by words would find that one


# The model -------------------------------------------------------------------------------------------------


async def serve() -> None:
    """Print the port, and answer until the process is ended."""
    server = await asyncio.start_server(_connection, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].partition("\r\n")[0])
            await _reply(json.loads(await reader.readexactly(length)), writer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the client has gone
    finally:
        writer.close()


async def _reply(body: dict[str, object], writer: asyncio.StreamWriter) -> None:
    """Answer with the code that the question asks for, in exactly so many seconds."""
    end = time.monotonic() + MODEL_SECONDS
    messages = body["messages"]
    assert isinstance(messages, list)  # noqa: S101 -- our own client
    codes = _CODE.findall(str(messages[-1]["content"]))
    text = f"The code is {codes[-1] if codes else 'unknown'} [1]. " + "It is as it was said before. " * 4
    usage = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
    if not body.get("stream"):
        await asyncio.sleep(MODEL_SECONDS)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        data = json.dumps({"model": "scripted", "choices": [choice], "usage": usage}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        writer.write(f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    size = len(text) // PIECES + 1
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    for number, piece in enumerate(pieces, 1):
        await asyncio.sleep(max(0.0, end - MODEL_SECONDS * (1 - number / len(pieces)) - time.monotonic()))
        await _event(writer, {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
    await _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
    await _event(writer, None)


async def _event(writer: asyncio.StreamWriter, record: dict[str, object] | None) -> None:
    data = "[DONE]" if record is None else json.dumps({"id": "c", "model": "scripted", **record})
    line = f"data: {data}\n\n".encode()
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n" + (b"0\r\n\r\n" if record is None else b""))
    await writer.drain()


@contextmanager
def served() -> Iterator[str]:
    """Start the server; yield its address."""
    command = [sys.executable, "-m", "benchmarks.chat", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None  # noqa: S101 -- a pipe
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.kill()


# The study -------------------------------------------------------------------------------------------------


def study_file(folder: Path, server: str) -> Path:
    """Write the sources, questions and study of the benchmark; return the study's path."""
    (folder / "boats").mkdir()
    for n in range(BOATS):
        text = (
            f"The boat {n} leaves pier {n} at {n % 12 + 1} o'clock and carries bricks to the island. "
            f"Its master has sailed since {1900 + n % 100}, and knows every rock of the bay. "
        )
        (folder / "boats" / f"boat-{n}.txt").write_text(text * 3)
    (folder / "bench.questions.yaml").write_text(
        "question_set: bench\nquestions:\n"
        "  - id: q1\n    question: When does the boat 7 leave its pier?\n    ground_truth: At 8.\n"
        "    evidence: [{url: boat-7.txt, quote: The boat 7 leaves pier 7}]\n"
    )
    path = folder / "bench.yaml"
    path.write_text(
        "study: bench\nsources:\n  boats: {reader: folder, path: boats}\n"
        "corpus: {name: bench, sources: [boats]}\n"
        "chunkings: {t64: {tokens: {size: 64, overlap: 8}}}\n"
        "embedders: {minilm: {model: all-MiniLM-L6-v2}}\n"
        "retrievers:\n  chain: [{follow_up: {}}, {time_frame: {}}, {hybrid: {k: 5}}]\n"
        f"generators:\n  model: {{llm: {{model: openai/scripted, api_base: {server}, passages: 5,\n"
        "    limits: {at_once: 32}}}\n"
        "questions: [{file: bench.questions.yaml}]\nmetrics: [ndcg@10]\n"
    )
    return path


# Conversations ---------------------------------------------------------------------------------------------


def converse(
    desk: QuestionService, talk: OpenedCell, person: int, until: float
) -> tuple[str, list[Turn], list[str]]:
    """Ask until the time is over; return the conversation, its turns as given, and what is wrong."""
    from rag_assay.evals.chat.question_requests import QuestionRequest

    conversation = desk.begin_conversation(talk.study, f"person {person}")
    given: list[Turn] = []
    wrong: list[str] = []
    while not given or time.monotonic() < until:
        number = len(given) + 1
        code, boat = f"p{person}q{number}", (person * 17 + number // 2) % BOATS
        text = (
            f"What does the boat {boat} carry? Tell me the code {code}."
            if number % 2
            else f"And when does it leave? The code {code}."
        )
        (turn,) = desk.ask(talk.study, conversation, QuestionRequest(text), [talk]).turns()
        given.append(turn)
        if turn.number != number or turn.question != text:
            wrong.append(f"{code}: it is question {turn.number}, {turn.question!r}")
        elif f"The code is {code} [1]" not in (turn.answer or ""):
            wrong.append(f"{code}: {turn.status}, {turn.reason}, {turn.answer!r}")
        elif number % 2 and not any(f"The boat {boat} " in one.text for one in turn.passages):
            wrong.append(f"{code}: no passage is of the boat {boat}")
    return conversation, given, wrong


def everybody(
    desk: QuestionService, talk: OpenedCell, seconds: float
) -> tuple[dict[str, list[Turn]], list[str]]:
    """Let all people converse at once."""
    found: dict[str, list[Turn]] = {}
    wrong: list[str] = []
    until = time.monotonic() + seconds

    def one(person: int) -> None:
        conversation, turns, mistakes = converse(desk, talk, person, until)
        found[conversation] = turns
        wrong.extend(mistakes)

    threads = [threading.Thread(target=one, args=(person,)) for person in range(1, PEOPLE + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, wrong


def lost(talk: OpenedCell, found: dict[str, list[Turn]]) -> list[str]:
    """Return the conversations whose turns are not, all and in order, in their file and in DuckDB."""
    from rag_assay.warehouse.connection import connect
    from rag_assay.warehouse.conversations import Conversations
    from rag_assay.warehouse.paths import home

    chats = Conversations(home())
    with connect(chats.home.database) as connection:
        rows = connection.execute(
            "SELECT conversation_id, turn_id FROM chat_turns ORDER BY number"
        ).fetchall()
    missing = []
    for conversation, turns in found.items():
        ids = [one.record_id for one in turns]
        there = chats.read(talk.study, conversation)
        if there is None or [one.record_id for one in there.turns] != ids or there.unanswered:
            missing.append(f"{conversation}: its file")
        if [turn for of, turn in rows if of == conversation] != ids:
            missing.append(f"{conversation}: DuckDB")
    return missing


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, the next value above it."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(folder: Path, seconds: float, server: str) -> bool:
    """Run the study, converse, and print what came of it; return whether it is as it should be."""
    from rag_assay.orchestration.settings import prepare

    prepare()
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.orchestration.driver import Driver
    from rag_assay.orchestration.question_service.opened_cell import open_cell
    from rag_assay.orchestration.question_service.question_service import QuestionService
    from rag_assay.warehouse.paths import home

    study = read_study(study_file(folder, server))
    failed = [reason for stage in Driver(study, home()).run().stages for reason in stage.failed.values()]
    if failed:
        raise SystemExit(f"the study failed: {failed[0]}")
    with closing(BuildContext(home())) as work, open_cell(study, study.cells()[0], work) as talk:
        with closing(QuestionService(home())) as desk:
            converse(desk, talk, 0, time.monotonic())  # what is loaded at the first question
            began, busy = time.monotonic(), time.process_time()
            found, wrong = everybody(desk, talk, seconds)
            took, busy = time.monotonic() - began, time.process_time() - busy
        missing = lost(talk, found)
    turns = [turn for of in found.values() for turn in of]
    over = [(turn.seconds or 0.0) - MODEL_SECONDS for turn in turns]
    print(f"{len(turns)} questions of {PEOPLE} conversations in {took:.0f} s")
    print(
        f"{busy / len(turns) * 1000:.0f} ms of processor each; mixed up: {len(wrong)}, lost: {len(missing)}"
    )
    shares = [f"p{share * 100:.0f} {quantile(over, share) * 1000:.0f} ms" for share in (0.5, 0.95, 0.99)]
    print(f"our own overhead: {', '.join(shares)}, longest {max(over) * 1000:.0f} ms")
    print(f"its p95 is to be under {TARGET * 1000:.0f} ms")
    for sentence in (*wrong[:10], *missing[:10]):
        print(sentence)
    return not wrong and not missing and quantile(over, 0.95) < TARGET


def main() -> None:
    """Measure, in a home of its own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as name, served() as server:
        models = Path(os.environ.get("ASSAY_MODELS") or Path(os.environ.get("ASSAY_HOME", "var")) / "models")
        os.environ["ASSAY_MODELS"] = str(models.resolve())
        os.environ["ASSAY_HOME"] = str(Path(name) / "var")
        os.environ.setdefault("OPENAI_API_KEY", "sk-scripted")
        sys.exit(0 if measure(Path(name), arguments.seconds, server) else 1)


if __name__ == "__main__":
    main()
