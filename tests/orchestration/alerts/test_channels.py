"""Webhooks and mail over real sockets: signed, tried again, never followed elsewhere, nothing secret said."""

from __future__ import annotations

import hashlib
import hmac
import shutil
import ssl
import subprocess
from functools import partial
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from rag_assay.evals.study.sections import Alerts
from rag_assay.evals.study.servers import open_servers
from rag_assay.orchestration.alerts.delivery import DeliveryError, Mail, Webhook
from rag_assay.orchestration.alerts.journal import AlertEvent, Journal
from rag_assay.orchestration.settings import Settings
from rag_assay.warehouse.inference import egress
from rag_assay.warehouse.paths import Home
from tests.fakes.receivers import hook, mailbox

EVENT = AlertEvent(
    "0123456789",
    "best",
    "demo",
    "demo: the best cell\r\nBcc: evil@example.org changed \u202e",
    "Größer <b>than</b> before\x00",
    "2026-11-24T05:00:00+00:00",
    "/reports/demo.html",
    {"value": 0.7},
)


def test_a_post_is_signed_and_holds_the_event() -> None:
    with hook() as found:
        Webhook(found.url, "s3cret").send(EVENT)
        Webhook(found.url).send(EVENT)
    (headers, body), (plain, _) = found.posted
    stamp = headers["X-Assay-Timestamp"]
    expected = hmac.new(b"s3cret", stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["X-Assay-Signature"] == f"sha256={expected}"
    assert "X-Assay-Signature" not in plain
    posted = found.events[0]
    assert posted["title"] == "demo: the best cell Bcc: evil@example.org changed \ufffd"
    assert posted["figures"] == {"value": 0.7}
    assert posted["report"] == "/reports/demo.html"


@pytest.mark.parametrize(
    ("replies", "posts", "waited", "reason"),
    [
        ([(503, {}), (200, {})], 2, 1, ""),
        ([(429, {"Retry-After": "3"}), (200, {})], 2, 1, ""),
        ([(500, {})], 3, 2, "answered 500 (3 of 3 tries)"),
        ([(429, {"Retry-After": "3600"})], 1, 0, "answered 429 (1 of 3 tries)"),
        ([(429, {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})], 1, 0, "answered 429 (1 of 3 tries)"),
        ([(503, {"Retry-After": "nan"}), (200, {})], 2, 1, ""),
        ([(404, {})], 1, 0, "answered 404"),
        ([(302, {"Location": "http://127.0.0.1:1/elsewhere"})], 1, 0, "a redirect, which is not followed"),
    ],
)
def test_a_busy_server_is_asked_again_and_no_other_is(
    replies: list[tuple[int, dict[str, str]]], posts: int, waited: int, reason: str
) -> None:
    pauses: list[float] = []
    with hook() as found:
        found.replies = replies
        channel = Webhook(found.url, wait=pauses.append)
        if reason:
            with pytest.raises(DeliveryError) as caught:
                channel.send(EVENT)
            assert reason in str(caught.value)
            assert "s3cret" not in f"{caught.value}{caught.value.__cause__}{channel!r}{channel.name}"
        else:
            channel.send(EVENT)
    assert (len(found.posted), len(pauses)) == (posts, waited)
    assert all(0.5 <= pause <= 4.0 for pause in pauses)
    assert replies[0][1].get("Retry-After") != "3" or pauses[0] >= 3


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "gopher://x/", "", "http://", "http://127.0.0.1:1/s3cret"]
)
def test_what_is_no_server_is_said_without_the_url(url: str) -> None:
    with pytest.raises(DeliveryError) as caught:
        Webhook(url, wait=lambda _seconds: None).send(EVENT)
    assert "s3cret" not in str(caught.value)


def test_an_alert_goes_to_its_own_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate of the HTTP clients holds it there, whatever its client would follow."""
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, follow_redirects=True))
    with hook() as thief, hook() as found:
        found.replies = [(307, {"Location": thief.url})]
        with pytest.raises(DeliveryError, match="leads to a server that neither"):
            Webhook(found.url, wait=lambda _seconds: None).send(EVENT)
    assert (len(found.posted), thief.posted) == (1, [])


def test_a_webhook_is_one_of_the_servers_that_the_study_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(egress, "opened", None)
    url, other = "http://hooks.example:81/T0KEN", "http://elsewhere.example:81/T0KEN"
    open_servers(Alerts(webhook=SecretStr(url)))
    tried: list[str] = []

    def refuse(_client: httpx.Client, address: str, **_more: object) -> httpx.Response:
        tried.append(address)
        return httpx.Response(404)

    monkeypatch.setattr(httpx.Client, "post", refuse)
    with pytest.raises(DeliveryError, match="answered 404"):
        Webhook(url).send(EVENT)
    with pytest.raises(DeliveryError, match="leads to a server that neither") as caught:
        Webhook(other).send(EVENT)
    assert "T0KEN" not in str(caught.value)
    with pytest.raises(DeliveryError, match="answered 404"):
        Webhook(other, is_own=True).send(EVENT)
    assert tried == [url, other]


def settings(port: int, security: str = "none", password: str = "pass-w0rd") -> Settings:  # noqa: S107 -- of a fake
    return Settings(
        smtp_host="localhost",
        smtp_port=port,
        smtp_security=security,
        smtp_user="robot",
        smtp_password=password,
        smtp_from="assay@example.org",
    )


def test_mail_is_one_message_whatever_its_title_says() -> None:
    with mailbox() as found:
        Mail(("a@example.org", "b@example.org"), settings(found.port)).send(EVENT)
    (message,) = found.messages
    assert (
        " ".join(message["Subject"].split())
        == "[rag-assay] demo: the best cell Bcc: evil@example.org changed \ufffd"
    )
    assert message["Bcc"] is None
    assert message["To"] == "a@example.org, b@example.org"
    assert message.get_content_type() == "text/plain"  # type: ignore[attr-defined]
    assert "Größer <b>than</b> before" in message.get_content()  # type: ignore[attr-defined]


def test_mail_that_is_refused_says_why_and_no_password() -> None:
    with mailbox() as found:
        wrong = Mail(("a@example.org",), settings(found.port, password="oth3r"))  # noqa: S106 -- a wrong one
        with pytest.raises(DeliveryError, match="refused user or password"):
            wrong.send(EVENT)
        assert "oth3r" not in repr(wrong)
        found.refuses = b"554 spam"
        with pytest.raises(DeliveryError, match=r"refused the message \(SMTP 554\)"):
            Mail(("a@example.org",), settings(found.port)).send(EVENT)
    with pytest.raises(DeliveryError, match="localhost: ConnectionRefusedError"):
        Mail(("a@example.org",), settings(1)).send(EVENT)
    with pytest.raises(DeliveryError, match="set ASSAY_SMTP_HOST"):
        Mail(("a@example.org",), Settings()).send(EVENT)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_password_goes_over_tls_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject)
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with mailbox(context) as found:
        with pytest.raises(DeliveryError, match="certificate verify failed"):
            Mail(("a@example.org",), settings(found.port, security="starttls")).send(EVENT)
        assert "AUTH" not in found.said, "an untrusted server is told no password"
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        Mail(("a@example.org",), settings(found.port, security="starttls")).send(EVENT)
    assert len(found.messages) == 1
    with mailbox() as plain:
        with pytest.raises(DeliveryError):
            Mail(("a@example.org",), settings(plain.port, security="starttls")).send(EVENT)
        assert "AUTH" not in plain.said


def test_the_journal_knows_what_was_sent_to_whom(tmp_path: Path) -> None:
    journal = Journal(Home(tmp_path), "demo")
    journal.note([EVENT, EVENT])
    journal.note([EVENT])
    assert [(one.id, name) for one, name in journal.waiting(["a", "b"])] == [(EVENT.id, "a"), (EVENT.id, "b")]
    journal.sent(EVENT, "a")
    ((again, name),) = journal.waiting(["a", "b"])
    assert (again, name) == (EVENT, "b")
    text = journal.path.read_text()
    old = text.replace(text.split('"noted": "')[1][:10], "2020-01-01", 1)
    journal.path.write_text(old)
    assert journal.waiting(["b"]) == [], "what could not be told for a week is old news"
