"""Whether a host is this machine alone, and whether an origin is that of a server's own pages."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

_SCHEMES = {"http": "http", "ws": "http", "https": "https", "wss": "https"}
_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def url_of(host: str, port: int) -> str:
    """Return the URL at which a browser on this machine finds a server that listens on a host.

    >>> url_of("0.0.0.0", 8501), url_of("::1", 8600)
    ('http://127.0.0.1:8501', 'http://[::1]:8600')
    """
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 -- it is compared
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Return (scheme, host, port) of an address; `ws` counts as `http`. None: it has none, as `null`.

    >>> origin_of("HTTP://LocalHost"), origin_of("wss://[::1]:8501"), origin_of("null")
    (('http', 'localhost', 80), ('https', '::1', 8501), None)
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = _SCHEMES.get(parts.scheme), parts.hostname, parts.port
    except ValueError:
        return None
    if scheme is None or not host or parts.username is not None or parts.path or parts.query:
        return None
    return scheme, host, port if port is not None else _PORTS[scheme]


def is_same_origin(origin: str, scheme: str, host: str) -> bool:
    """Return whether an `Origin` header names the server that a request's `Host` header names.

    scheme: of the request, as `http` or `wss`

    >>> is_same_origin("http://localhost:8501", "ws", "localhost:8501")
    True
    >>> is_same_origin("http://localhost:9999", "ws", "localhost:8501")
    False
    """
    ours = origin_of(f"{scheme}://{host}")
    return ours is not None and origin_of(origin) == ours


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a TCP socket at an address, which does not listen yet; port 0: any free one."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


def free_loopback_port() -> int:
    with bound_socket("127.0.0.1", 0) as found:
        return int(found.getsockname()[1])
