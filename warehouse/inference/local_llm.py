"""A local model behind an OpenAI-compatible port: llama.cpp in this process, through xllamacpp."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

from rag_assay.warehouse.cancellation import LOOK
from rag_assay.warehouse.closing import Closeable
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.fair_slots import FairSlots

_PURPOSE = "a model that runs here (`local/NAME`)"
CONTEXT = 4096  # tokens: prompt and answer together


def engine() -> str:
    """Return the name and version of what computes the answers; another version may compute other ones."""
    require("xllamacpp", _PURPOSE)
    return f"xllamacpp {metadata.version('xllamacpp')}"


def free_cores() -> int:
    """At least 1; `taskset` and cpusets count: more threads than cores slow llama.cpp down."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return max(1, len(affinity(0)) if affinity else os.cpu_count() or 1)


class LocalServer(Closeable):
    """Serves one GGUF file on 127.0.0.1 at a free port until `stop`; ready once constructed. An answer
    depends on no other call and no number of threads.

    folder: holds exactly one `*.gguf` file
    threads: default: every core that the process may use
    context: tokens of prompt and answer together
    Raises AssayError: the file cannot be loaded.
    """

    def __init__(
        self, model_name: str, folder: Path, *, threads: int | None = None, context: int = CONTEXT
    ) -> None:
        self.model_name = model_name
        self.api_key = secrets.token_hex(16)
        self.threads = threads or free_cores()
        self.context = context
        self._server: Any = _start(self, _weights(folder))
        self.api_base = f"{self._server.listening_address}/v1"

    def close(self) -> None:
        """Free port and memory once no call is computed: before, the server would block every thread."""
        server, self._server = self._server, None
        if server is not None and not self._is_idle():
            Thread(target=self._drop_when_idle, args=[[server]], name="local server", daemon=True).start()

    def _drop_when_idle(self, last: list[Any]) -> None:
        while not self._is_idle():
            sleep(LOOK)
        last.clear()

    def _is_idle(self) -> bool:
        import httpx

        address = self.api_base.removesuffix("/v1")
        headers = {"Authorization": f"Bearer {self.api_key}"}
        try:
            slots = httpx.get(f"{address}/slots", headers=headers, timeout=1, trust_env=False)
            return slots.is_success and not any(slot["is_processing"] for slot in slots.json())
        except (httpx.HTTPError, ValueError):
            return False


def _weights(folder: Path) -> Path:
    found = sorted(folder.glob("*.gguf"))
    if len(found) != 1:
        raise AssayError(f"{folder}: expected one .gguf file, found {len(found)}. `assay models` fetches it.")
    return found[0]


def _start(server: LocalServer, weights: Path) -> Any:
    require("xllamacpp", _PURPOSE)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.verbosity = 0  # it would write its log to stderr
    params.model.path = str(weights)
    params.model_alias = {server.model_name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # the system picks a free one
    params.api_keys = [server.api_key]  # any page in a browser can reach a loopback port
    params.ui = False
    params.offline = True
    params.n_gpu_layers = 0
    params.n_parallel = 1
    params.n_ctx = server.context
    # Flash attention sums in an order that depends on the number of threads, and so would the answers.
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = server.threads
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise AssayError(
            f"{weights}: llama.cpp could not load the model ({error}). "
            "`assay models` verifies the file; it may also need more free memory."
        ) from error


MOST_SERVERS = 4  # each holds a context of its own, and perhaps its weights once more


def servers_at_once() -> int:
    return min(MOST_SERVERS, free_cores())


class LocalServers:
    """Servers of local models, started when needed; each answers one call at a time. Thread-safe.

    threads: None: `servers_at_once` servers share the cores, which answers more calls; else one with so many
    context: tokens of prompt and answer together
    """

    def __init__(self, fetch: Callable[[str], Path], threads: int | None, context: int) -> None:
        self._fetch = fetch
        self._most = servers_at_once() if threads is None else 1
        self._threads = threads or max(1, free_cores() // self._most)
        self._context = context
        self._free: dict[str, list[LocalServer]] = {}
        self._started: list[LocalServer] = []
        self._slots = FairSlots(self._most)  # of all models together: cores are theirs in common
        self._lock = threading.Lock()

    @contextmanager
    def server(self, name: str) -> Iterator[LocalServer]:
        with self._slots.slot():
            server = self._take(name)
            try:
                yield server
            finally:
                with self._lock:
                    is_kept = server in self._started  # not closed meanwhile
                    if is_kept:
                        self._free.setdefault(name, []).append(server)
                if not is_kept:
                    server.close()

    def _take(self, name: str) -> LocalServer:
        with self._lock:
            free = self._free.get(name)
            if free:
                return free.pop()
            folder = self._fetch(name)
            server = LocalServer(name, folder, threads=self._threads, context=self._context)
            self._started.append(server)
            return server

    def close(self) -> None:
        with self._lock:
            free = [server for servers in self._free.values() for server in servers]
            self._free.clear()
            self._started.clear()
        for server in free:
            server.close()
