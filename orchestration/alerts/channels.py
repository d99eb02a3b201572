"""The channels of alerts: the log, a webhook, e-mail. What goes wrong there is a sentence."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
import smtplib
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.utils import formatdate
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit

from rag_assay.orchestration.alerts.journal import AlertEvent
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference.redaction import one_line

if TYPE_CHECKING:
    from rag_assay.warehouse.inference.egress import Destination

Security = Literal["starttls", "tls", "none"]


@dataclass(frozen=True)
class MailSettings:
    """A server, and how it is spoken to; port 0: the usual one."""

    host: str = ""
    port: int = 0
    security: Security = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""


log = logging.getLogger("assay.alerts")
TRIES, TIMEOUT = 3, 5.0  # seconds that a server may stay silent; five times as long in all
LONGEST_WAIT = 4.0  # seconds between two tries; what is to wait longer is left to the next run


class DeliveryError(AssayError):
    """Somebody could not be told; the message says why, and holds nothing secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


class Channel(Protocol):
    """One way of telling."""

    @property
    def name(self) -> str:
        """The channel, as the journal names it; it holds nothing secret."""

    def send(self, event: AlertEvent) -> None:
        """Tell of an event."""


@dataclass(frozen=True)
class Log:
    """Writes a warning into the log of the process."""

    name: str = "log"

    def send(self, event: AlertEvent) -> None:
        log.warning("%s: %s", event.study, event.subject)


@dataclass(frozen=True)
class Webhook:
    """Posts JSON to a URL, which is secret: only its host is named.

    With a secret the body is signed: `X-Assay-Signature: sha256=` and the HMAC-SHA256 of `TIMESTAMP.BODY`,
    where `X-Assay-Timestamp` holds the first, in seconds.

    is_own: the URL is of the user's environment; else it is posted to if the opened study names it
    """

    url: str = field(repr=False)
    secret: str = field(default="", repr=False)
    is_own: bool = False
    wait: Callable[[float], None] = time.sleep

    @property
    def name(self) -> str:
        return f"webhook {hashlib.sha256(self.url.encode()).hexdigest()[:8]}"

    @property
    def host(self) -> str:
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:
            return ""

    def send(self, event: AlertEvent) -> None:
        if urlsplit(self.url).scheme not in {"http", "https"} or not self.host:
            raise DeliveryError("the webhook is not an http or https URL")
        body = json.dumps(event.payload(), ensure_ascii=False).encode("utf-8", "replace")
        for number in range(1, TRIES + 1):
            reason, pause = self._try(body)
            if not reason:
                return
            if pause is None or number == TRIES or pause > LONGEST_WAIT:
                raise DeliveryError(f"the webhook at {self.host} {reason} ({number} of {TRIES} tries)")
            # Half of the wait is random, so that many who were refused do not come back at once.
            backoff = min(LONGEST_WAIT, 2.0 ** (number - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
            self.wait(max(pause, backoff))

    def _try(self, body: bytes) -> tuple[str, float | None]:
        import httpx

        from rag_assay.warehouse.inference.call_failures import retry_after
        from rag_assay.warehouse.inference.egress import NotAllowedError, guard_client, only_to
        from rag_assay.warehouse.inference.http_limits import limit

        stamp = str(int(time.time()))
        headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "rag-assay"}
        if self.secret:
            mark = hmac.new(self.secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
            headers |= {"X-Assay-Timestamp": stamp, "X-Assay-Signature": f"sha256={mark}"}
        try:
            with only_to(self._destination()), guard_client(limit(httpx.Client(timeout=TIMEOUT))) as client:
                reply = client.post(self.url, content=body, headers=headers)
        except (httpx.InvalidURL, ValueError):
            return "has a URL that cannot be used", None
        except NotAllowedError:
            return "leads to a server that neither the study nor the environment names", None
        except httpx.HTTPError as error:  # its text may name the URL
            return f"did not answer ({type(error).__name__})", 0.0
        if reply.is_success:
            return "", None
        if reply.is_redirect:
            return f"answered {reply.status_code}, a redirect, which is not followed", None
        is_passing = reply.status_code in {408, 425, 429} or reply.status_code >= 500
        return f"answered {reply.status_code}", retry_after(reply.headers) or 0.0 if is_passing else None

    def _destination(self) -> Destination:
        from rag_assay.warehouse.inference.egress import Destination, NotAllowedError, is_allowed, origin

        server = origin(self.url)
        if not (self.is_own or is_allowed(server)):
            raise NotAllowedError
        return Destination(frozenset({server}))


@dataclass(frozen=True)
class Mail:
    """Sends e-mail through the server of the settings."""

    to: tuple[str, ...]
    server: MailSettings

    @property
    def name(self) -> str:
        return f"e-mail {hashlib.sha256(', '.join(self.to).encode()).hexdigest()[:8]}"

    def send(self, event: AlertEvent) -> None:
        if not self.server.host:
            raise DeliveryError("no mail server: set ASSAY_SMTP_HOST")
        try:
            self._send(self._message(event))
        except smtplib.SMTPAuthenticationError as error:
            raise DeliveryError(
                f"{self.server.host} refused user or password (SMTP {error.smtp_code})"
            ) from None
        except smtplib.SMTPResponseException as error:
            raise DeliveryError(f"{self.server.host} refused the message (SMTP {error.smtp_code})") from None
        except smtplib.SMTPException as error:
            raise DeliveryError(f"{self.server.host}: {type(error).__name__}") from None
        except (OSError, ValueError) as error:  # away, or its certificate is none that is trusted
            raise DeliveryError(f"{self.server.host}: {type(error).__name__}: {error}") from None

    def _message(self, event: AlertEvent) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = f"[rag-assay] {event.subject}"
        message["From"] = self.server.sender or self.to[0]
        message["To"] = ", ".join(self.to)
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{event.id}.{hashlib.sha256(self.name.encode()).hexdigest()[:8]}@rag-assay>"
        message.set_content(event.body)
        return message

    def _send(self, message: EmailMessage) -> None:
        server = self.server
        context = ssl.create_default_context()
        if server.security == "tls":
            opened: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port or 465, timeout=TIMEOUT, context=context
            )
        else:
            opened = smtplib.SMTP(server.host, server.port or 587, timeout=TIMEOUT)
        with opened as smtp:
            if server.security == "starttls":
                smtp.starttls(context=context)
            if server.user:
                smtp.login(server.user, server.password)
            smtp.send_message(message)


def mail_to(addresses: str) -> tuple[str, ...]:
    """Read addresses with commas between them.

    >>> mail_to("a@example.org, b@example.org")
    ('a@example.org', 'b@example.org')
    """
    found = tuple(part.strip() for part in addresses.split(",") if part.strip())
    for one in found:
        if "://" in one:
            raise InputError("a URL is not an e-mail address; a webhook stands under ASSAY_ALERTS_WEBHOOK")
        if one.count("@") != 1 or one.split() != [one]:
            raise InputError(f"{one!r} is not an e-mail address")
    return found
