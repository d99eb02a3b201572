"""Traces reach a collector on loopback; one that fails, hangs or is elsewhere costs a warning."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from rag_assay.warehouse.inference import egress, trace_export
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.inference.trace_export import SentTrace, TraceSpan, trace_exporter
from tests.fakes.receivers import IN_URL, Hook, hook, spans_of

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
NOW = 1_764_288_000_000_000_000
ROOT = TraceSpan(
    "question",
    NOW,
    NOW + 2_000_000_000,
    {"openinference.span.kind": "CHAIN", "n": 3, "score": 0.5, "cached": True, "odd": "a\udc80b"},
    (
        TraceSpan("search", NOW, NOW + 1_000_000_000, {"openinference.span.kind": "RETRIEVER"}, error="lost"),
        TraceSpan("evaluate", NOW, NOW, {"openinference.span.kind": "EVALUATOR"}, is_about_parent=True),
    ),
)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setattr(trace_export, "_told", set())
    monkeypatch.setattr(trace_export, "_exporters", {})
    with hook() as found:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{urlsplit(found.url).port}")
        yield found


def send(*traces: SentTrace) -> None:
    exporter = trace_exporter()
    assert exporter is not None
    exporter.add(traces or [SentTrace(ROOT)])
    exporter.flush()


def test_spans_arrive_with_parents_links_times_and_attributes_of_each_type(
    collector: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "boats")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20very-secret-9, x-tenant=a")
    send(SentTrace(ROOT, "q1"), SentTrace(ROOT, "q1"), SentTrace(ROOT), SentTrace(ROOT))
    ((headers, body),) = collector.posted
    assert headers["Content-Type"] == "application/x-protobuf"
    assert (headers["authorization"], headers["x-tenant"]) == ("Bearer very-secret-9", "a")
    assert "very-secret-9" not in one_line("refused: very-secret-9"), "it is known as a secret from now on"
    assert b"boats" in body
    spans = spans_of(body)
    root, search, evaluate, *_ = spans
    assert root.attributes["openinference.span.kind"] == "CHAIN"
    told = [root.attributes[name] for name in ("n", "score", "cached", "odd")]
    assert told == [3, 0.5, True, "a?b"]
    assert (root.parent, search.parent, evaluate.links) == ("", root.id, [root.id])
    assert (root.seconds, search.seconds, search.failed) == (2.0, 1.0, "lost")
    by_trace = [one.trace for one in spans if not one.parent]
    assert by_trace[0] == by_trace[1], "the same seed has the same ids: a collector keeps one of them"
    assert len(set(by_trace)) == 3
    assert len({one.id for one in spans[:3]}) == 3


def test_nothing_is_sent_unless_the_environment_names_a_collector(
    collector: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert trace_exporter() is None
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    monkeypatch.delenv(ENDPOINT)
    assert trace_exporter() is None
    assert collector.posted == []


def test_user_password_and_query_of_the_address_are_sent_and_not_logged(
    collector: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    collector.replies = [(403, {})]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=header-secret-7")
    with caplog.at_level(logging.DEBUG):
        send()
    ((headers, _),) = collector.posted
    assert headers["Authorization"].startswith("Basic ")
    assert headers["x-key"] == "header-secret-7"
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warning.endswith(f"http://127.0.0.1:{urlsplit(collector.url).port} answered 403")
    assert not [secret for secret in (*IN_URL[:2], IN_URL[3], "header-secret-7") if secret in caplog.text]


@pytest.mark.parametrize("away", [True, False])
def test_a_collector_that_fails_costs_one_warning(
    collector: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, away: bool
) -> None:
    collector.replies = [(503, {})]
    if away:
        monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    for _ in range(3):
        send()
    warnings = [one.getMessage() for one in caplog.records if one.name == "assay.traces"]
    (warning,) = warnings
    assert ("did not answer (ConnectError)" if away else "answered 503") in warning
    assert len(collector.posted) == (0 if away else 1), "nothing more is sent to it for a while"


def test_a_redirect_to_another_server_is_not_followed(
    collector: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    collector.replies = [(307, {"Location": "http://collector.example/v1/traces"})]
    send()
    assert "answered 307" in caplog.text


def test_one_that_never_answers_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_export, "_exporters", {})
    monkeypatch.setattr(trace_export, "MOST_WAITING", 4)
    ends = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            ends.wait(60)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{server.server_port}")
        exporter = trace_exporter()
        assert exporter is not None
        exporter._patience = 0.05
        for _ in range(10):
            exporter.add([SentTrace(ROOT)] * 3)
        exporter.flush()
        assert not ends.is_set(), "it has not answered, and all of this is done"
        assert "is too slow: 4 traces wait" in caplog.text
        assert exporter._waiting == type(exporter._waiting)()
    finally:
        ends.set()
        server.shutdown()
        server.server_close()


def test_one_that_has_caught_up_is_waited_for_again(
    collector: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_export, "MOST_WAITING", 1)
    exporter = trace_exporter()
    assert exporter is not None
    exporter._patience = 0.0  # it was slow before
    exporter.add([SentTrace(ROOT)])
    with exporter._changed:
        assert exporter._changed.wait_for(lambda: not exporter._waiting and not exporter._sending, 60)
    send(*[SentTrace(ROOT)] * 5)
    assert sum(len(spans_of(body)) for _, body in collector.posted) == 6 * 3, "none is dropped"
    assert caplog.messages == []


SECRETS = {"DOCS_API_KEY": "plain-secret-91", "DOCS_PASSWORD": 'gehe"im-\u00e4\\7\u00df'}


def test_no_secret_of_the_environment_leaves_in_any_attribute_or_error(
    collector: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    told = " and ".join(SECRETS.values())
    in_json = json.dumps({"title": told}, ensure_ascii=False)
    send(SentTrace(replace(ROOT, attributes={"input.value": told, "metadata": in_json}, error=told)))
    ((_, body),) = collector.posted
    root, *_ = spans_of(body)
    assert root.attributes == {"input.value": "*** and ***", "metadata": '{"title": "*** and ***"}'}
    assert root.failed == "*** and ***"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({ENDPOINT: "https://collector.example:4318"}, "https://collector.example:4318 is another machine"),
        ({ENDPOINT: "collector:4318"}, f"{ENDPOINT}: an address begins with http:// or https://"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "write http/protobuf (port 4318)"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "Bearer"}, "HEADERS is not a list of NAME=VALUE"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "'soon' is not a number of milliseconds"),
    ],
)
def test_what_cannot_be_used_is_said_once(
    collector: Hook,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, str],
    words: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert trace_exporter() is None
    assert trace_exporter() is None
    (warning,) = caplog.messages
    assert words in warning


def test_another_machine_is_one_that_the_environment_or_the_opened_study_names(
    collector: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, "https://collector.example:4318")
    assert trace_exporter() is None
    egress.allow(["https://collector.example:4318"])
    assert trace_exporter() is not None
    monkeypatch.setattr(egress, "opened", {"https://api.example:443"})
    assert trace_exporter() is None
    monkeypatch.setenv("ASSAY_TRACE_HOSTS", "other.example, collector.example")
    assert trace_exporter() is not None


def test_spans_that_are_rejected_are_told(
    collector: Hook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    reply = ExportTraceServiceResponse()
    reply.partial_success.rejected_spans = 2
    reply.partial_success.error_message = "quota"
    collector.replies = [(200, {"Content-Type": "application/x-protobuf"})]
    collector.body = reply.SerializeToString()
    send()
    assert "rejected 2 spans: quota" in caplog.text
