"""A proxy on loopback between a client and a server, which does to requests what networks do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import sleep
from urllib.parse import urlsplit

SLOW_DOWN = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class Proxy:
    """A running proxy.

    fault: what becomes of the next request, by its first line: "" (nothing), `503`, `slow`, `lost` (in the
        middle of what is sent), `unanswered` (the server has done it, and its answer is lost)
    careless: the server does not get to know the conditions of writes
    seen: the first lines of the requests
    """

    address: str
    fault: Callable[[str], str] = lambda _line: ""
    careless: bool = False
    seen: list[str] = field(default_factory=list)


@contextmanager
def faulty_proxy(server: str) -> Iterator[Proxy]:
    """Run a proxy before a server (`http://host:port`) for as long as the block takes."""
    listener = socket.create_server(("127.0.0.1", 0))
    proxy = Proxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
    parts = urlsplit(server)
    target = (parts.hostname or "", parts.port or 80)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_pass_on, args=(client, target, proxy), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.close()


def _pass_on(client: socket.socket, target: tuple[str, int], proxy: Proxy) -> None:
    """Pass on one request and its answer; a connection serves one."""
    with client, suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head:
            part = client.recv(65_536)
            if not part:
                return
            head += part
        head, _, body = head.partition(b"\r\n\r\n")
        line = head.split(b"\r\n")[0].decode("latin-1")
        proxy.seen.append(line)
        if proxy.careless:
            lines = head.split(b"\r\n")
            head = b"\r\n".join(one for one in lines if not one.lower().startswith((b"if-match", b"if-none")))
        fault = proxy.fault(line)
        if fault == "503":
            client.sendall(SLOW_DOWN)
            return
        if fault == "slow":
            sleep(0.7)
        length = _length(head)
        with socket.create_connection(target) as server:
            while len(body) < length and (part := client.recv(65_536)):
                body += part
            if fault == "lost":  # in the middle
                server.sendall(head + b"\r\n\r\n" + body[: length // 2])
                return
            server.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
            while part := server.recv(65_536):
                if fault != "unanswered":
                    client.sendall(part)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0
