"""Sends traces to an OpenTelemetry collector (OTLP over HTTP) in the background, as set by OpenTelemetry's
own variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`. A collector that fails costs one warning and no
result.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from rag_assay.warehouse.encodable import encodable
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.extras import require
from rag_assay.warehouse.inference import egress
from rag_assay.warehouse.inference.redaction import know_secret, know_url, one_line, without_known

if TYPE_CHECKING:
    import httpx

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HOSTS = "ASSAY_TRACE_HOSTS"
TIMEOUT = 10.0  # seconds that a collector may take for a batch
MOST_WAITING = 4096  # traces that wait to be sent; a run waits for room, but no longer than PATIENCE
PATIENCE = 5.0  # seconds that are waited in all for a collector, until it has taken what waits
AFTER_FAILURE = 60.0  # seconds in which nothing is sent to a collector that has failed
BATCH = 256  # traces of one request
log = logging.getLogger("assay.traces")

Value = str | int | float | bool
Attributes = Mapping[str, Value]


@dataclass(frozen=True)
class TraceSpan:
    """A span with those inside it; times in nanoseconds since 1970.

    error: why it failed; None: it did not
    is_about_parent: it is linked to the span around it, as feedback is in OpenInference
    """

    name: str
    start: int
    end: int
    attributes: Attributes
    children: tuple[TraceSpan, ...] = ()
    error: str | None = None
    is_about_parent: bool = False


class SentTrace(NamedTuple):
    """A trace; one with the same `seed` as an earlier one has its ids, and replaces it. None: it is new."""

    root: TraceSpan
    seed: str | None = None


class Collector(NamedTuple):
    """Where traces go, and what describes their sender."""

    url: str
    headers: tuple[tuple[str, str], ...]
    timeout: float
    resource: tuple[tuple[str, str], ...]


@dataclass
class TraceExporter:
    """Thread-safe. One thread sends what `add` is given; a failure drops what waits."""

    collector: Collector
    _waiting: deque[SentTrace] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None
    _sending: int = 0
    _off_until: float = 0.0
    _patience: float = PATIENCE
    _warned: set[str] = field(default_factory=set)

    def add(self, traces: Sequence[SentTrace]) -> None:
        """Queue traces; where the queue is full, wait for a collector that answers, else drop them."""
        with self._changed:
            for trace in traces:
                if self._is_off or not self._has_room():
                    return
                self._waiting.append(trace)
                self._start()
            self._changed.notify_all()

    def flush(self) -> None:
        with self._changed:
            self._wait(lambda: not self._waiting and not self._sending)

    def warn(self, reason: str) -> None:
        _warn_once(one_line(reason), self._warned)

    @property
    def _is_off(self) -> bool:
        return monotonic() < self._off_until

    def _has_room(self) -> bool:
        if len(self._waiting) >= MOST_WAITING:
            self._changed.notify_all()
            if not self._wait(lambda: len(self._waiting) < MOST_WAITING):
                self._fail(f"is too slow: {MOST_WAITING} traces wait")
        return not self._is_off

    def _wait(self, until: Callable[[], bool]) -> bool:
        begin = monotonic()
        done = self._changed.wait_for(lambda: until() or self._is_off, self._patience)
        self._patience = max(0.0, self._patience - (monotonic() - begin))
        return done

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._send_all, name="traces", daemon=True)
            self._thread.start()
            atexit.register(self.flush)

    def _send_all(self) -> None:
        client: httpx.Client | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                self._sending = len(batch)
            try:
                client = client or _client(self.collector)
                reason = _post(client, self.collector, encode(batch, self.collector.resource))
            except Exception as error:  # whatever it is, it is no failure of what is traced
                reason = _reason(error)
            with self._changed:
                self._sending = 0
                if reason:
                    self._fail(reason)
                elif not self._waiting:
                    self._patience = PATIENCE
                self._changed.notify_all()

    def _fail(self, reason: str) -> None:
        self._waiting.clear()
        self._off_until = monotonic() + AFTER_FAILURE
        self._changed.notify_all()
        self.warn(f"the collector at {egress.origin(self.collector.url)} {reason}")


def trace_exporter() -> TraceExporter | None:
    """Return the exporter of the environment; None: it names no collector, or one that cannot be used."""
    if not (os.environ.get(ENDPOINT) or os.environ.get(_of_traces(ENDPOINT))):
        return None
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        collector = _collector()
        require("opentelemetry.proto", "sending traces")
    except InputError as error:
        _warn_once(str(error), _told)
        return None
    if not _is_allowed(collector.url):
        host = egress.origin(collector.url)
        _warn_once(f"{host} is another machine; set {HOSTS} to its host to send it traces", _told)
        return None
    with _lock:
        key = (os.getpid(), collector)  # a thread does not outlive a fork
        return _exporters.setdefault(key, TraceExporter(collector))


_told: set[str] = set()
_exporters: dict[tuple[int, Collector], TraceExporter] = {}
_lock = threading.Lock()


def _warn_once(reason: str, told: set[str]) -> None:
    if not told:
        log.warning("traces are not sent: %s", reason)
    told.add(reason)


def _of_traces(name: str) -> str:
    return name.replace("OTLP_", "OTLP_TRACES_")


def _setting(name: str) -> str:
    return os.environ.get(_of_traces(name)) or os.environ.get(name, "")


def _collector() -> Collector:
    url = os.environ.get(_of_traces(ENDPOINT)) or f"{os.environ[ENDPOINT].rstrip('/')}/v1/traces"
    try:
        know_url(url)
        egress.origin(url)
    except ValueError as error:
        raise InputError(f"{ENDPOINT}: {error}") from None
    protocol = _setting("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    if protocol != "http/protobuf":
        raise InputError(f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r}: write http/protobuf (port 4318)")
    headers = _pairs("OTEL_EXPORTER_OTLP_HEADERS", _setting("OTEL_EXPORTER_OTLP_HEADERS"))
    for _, value in headers:
        know_secret(value)
        know_secret(value.rpartition(" ")[2])
    milliseconds = _setting("OTEL_EXPORTER_OTLP_TIMEOUT") or f"{TIMEOUT * 1000}"
    try:
        timeout = float(milliseconds) / 1000
    except ValueError:
        raise InputError(
            f"OTEL_EXPORTER_OTLP_TIMEOUT={milliseconds!r} is not a number of milliseconds"
        ) from None
    resource = dict(_pairs("OTEL_RESOURCE_ATTRIBUTES", os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    resource.setdefault("service.name", "rag-assay")
    if name := os.environ.get("OTEL_SERVICE_NAME"):
        resource["service.name"] = name
    return Collector(url, headers, timeout, tuple(sorted(resource.items())))


def _pairs(name: str, text: str) -> tuple[tuple[str, str], ...]:
    """Read a list as the OpenTelemetry specification has them.

    >>> _pairs("HEADERS", "authorization=Bearer%20x, tenant=a")
    (('authorization', 'Bearer x'), ('tenant', 'a'))
    """
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{name} is not a list of NAME=VALUE with commas between")
        found.append((unquote(key.strip()), unquote(value.strip())))
    return tuple(found)


def _is_allowed(url: str) -> bool:
    hosts = {one.strip().lower() for one in os.environ.get(HOSTS, "").split(",")}
    host = egress.origin(url).partition("://")[2].rpartition(":")[0].strip("[]")
    is_named = egress.opened is not None and egress.is_allowed(egress.origin(url))
    return egress.is_of_this_machine(url) or host in hosts or is_named


def _client(collector: Collector) -> httpx.Client:
    import httpx

    from rag_assay.warehouse.inference.http_limits import limit

    headers = {"User-Agent": "rag-assay", **dict(collector.headers)}
    return egress.guard_client(limit(httpx.Client(timeout=collector.timeout, headers=headers)))


def _post(client: httpx.Client, collector: Collector, body: bytes) -> str:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    destination = egress.Destination(
        frozenset({egress.origin(collector.url)}), egress.carried_by(collector.url)
    )
    url = egress.without_credentials(collector.url)
    with egress.only_to(destination):
        reply = client.post(url, content=body, headers={"Content-Type": "application/x-protobuf"})
    if not reply.is_success:
        return f"answered {reply.status_code}"
    if not reply.headers.get("content-type", "").startswith("application/x-protobuf"):
        return ""
    part = ExportTraceServiceResponse.FromString(reply.content).partial_success
    return f"rejected {part.rejected_spans} spans: {part.error_message}" if part.rejected_spans else ""


def _reason(error: Exception) -> str:
    import httpx

    if isinstance(error, httpx.HTTPError):  # its text may name the URL
        return f"did not answer ({type(error).__name__})"
    return f"could not be used ({type(error).__name__}: {error})"


def encode(traces: Sequence[SentTrace], resource: Sequence[tuple[str, str]]) -> bytes:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    _write_attributes(of_resource.resource.attributes, dict(resource))
    scope = of_resource.scope_spans.add()
    scope.scope.name = "rag_assay"
    for trace in traces:
        trace_id = _digest(trace.seed)[:16] if trace.seed is not None else token_bytes(16)
        for span, path, parent in _flat(trace.root, "root", None):
            written = scope.spans.add(
                trace_id=trace_id,
                span_id=_span_id(trace_id, path),
                name=span.name,
                kind="SPAN_KIND_INTERNAL",
                start_time_unix_nano=span.start,
                end_time_unix_nano=span.end,
            )
            if parent is not None:
                written.parent_span_id = _span_id(trace_id, parent)
                if span.is_about_parent:
                    written.links.add(trace_id=trace_id, span_id=written.parent_span_id)
            _write_attributes(written.attributes, span.attributes)
            written.status.code = "STATUS_CODE_ERROR" if span.error else "STATUS_CODE_OK"
            written.status.message = one_line(span.error or "")
    return bytes(request.SerializeToString())


def _flat(span: TraceSpan, path: str, parent: str | None) -> Iterator[tuple[TraceSpan, str, str | None]]:
    yield span, path, parent
    for number, child in enumerate(span.children):
        yield from _flat(child, f"{path}.{number}", path)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _span_id(trace_id: bytes, path: str) -> bytes:
    return _digest(f"{trace_id.hex()} {path}")[:8]


def _write_attributes(written: Any, attributes: Attributes) -> None:
    for key, value in attributes.items():
        one = written.add(key=key)
        match value:
            case bool():
                one.value.bool_value = value
            case int():
                one.value.int_value = value
            case float():
                one.value.double_value = value
            case _:
                one.value.string_value = without_known(encodable(value))
