"""Alert channels, and the alerts of a study: sent once, and never at the cost of a run."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import random
import smtplib
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rag_assay.assets.engine.builder import checks_of
from rag_assay.evals.reporting.changes.history import HistoryStep, since_words, steps
from rag_assay.evals.reporting.changes.results import CellValue, HistoryEntry, entries_of
from rag_assay.evals.reporting.display import interval, number, several
from rag_assay.orchestration.alerts.journal import AlertEvent, Journal, new_event
from rag_assay.orchestration.run_report import by_reason
from rag_assay.orchestration.settings import Settings, secret_of
from rag_assay.warehouse.artifacts import Artifact, ArtifactStore
from rag_assay.warehouse.errors import AssayError, InputError
from rag_assay.warehouse.inference.redaction import one_line
from rag_assay.warehouse.locks import locked
from rag_assay.warehouse.status import Status

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import Stage
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport
    from rag_assay.warehouse.inference.egress import Destination
    from rag_assay.warehouse.paths import Home


log = logging.getLogger("assay.alerts")
TRIES, TIMEOUT = 3, 5.0  # seconds that a server may stay silent; five times as long in all
LONGEST_WAIT = 4.0  # seconds between two tries; what is to wait longer is left to the next run


class DeliveryError(AssayError):
    """Somebody could not be told; the message says why, and holds nothing secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(one_line(reason))


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
        for tried in range(1, TRIES + 1):
            reason, pause = self._try(body)
            if not reason:
                return
            if pause is None or tried == TRIES or pause > LONGEST_WAIT:
                raise DeliveryError(f"the webhook at {self.host} {reason} ({tried} of {TRIES} tries)")
            # Half of the wait is random, so that many who were refused do not come back at once.
            backoff = min(LONGEST_WAIT, 2.0 ** (tried - 1)) * random.uniform(0.5, 1.0)  # noqa: S311
            self.wait(max(pause, backoff))

    def _try(self, body: bytes) -> tuple[str, float | None]:
        import httpx

        from rag_assay.warehouse.inference.egress import NotAllowedError, guard_client, only_to
        from rag_assay.warehouse.inference.http_limits import limit
        from rag_assay.warehouse.iso_dates import retry_after

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
        pause = retry_after(reply.headers.get("retry-after")) or 0.0
        return f"answered {reply.status_code}", pause if is_passing else None

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
    server: Settings

    @property
    def name(self) -> str:
        return f"e-mail {hashlib.sha256(', '.join(self.to).encode()).hexdigest()[:8]}"

    def send(self, event: AlertEvent) -> None:
        host = self.server.smtp_host
        if not host:
            raise DeliveryError("no mail server: set ASSAY_SMTP_HOST")
        try:
            self._send(self._message(event))
        except smtplib.SMTPResponseException as error:
            is_login = isinstance(error, smtplib.SMTPAuthenticationError)
            what = "user or password" if is_login else "the message"
            raise DeliveryError(f"{host} refused {what} (SMTP {error.smtp_code})") from None
        except smtplib.SMTPException as error:
            raise DeliveryError(f"{host}: {type(error).__name__}") from None
        except (OSError, ValueError) as error:  # away, or its certificate is none that is trusted
            raise DeliveryError(f"{host}: {type(error).__name__}: {error}") from None

    def _message(self, event: AlertEvent) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = f"[rag-assay] {event.subject}"
        message["From"] = self.server.smtp_from or self.to[0]
        message["To"] = ", ".join(self.to)
        message["Date"] = formatdate()
        message["Message-ID"] = f"<{event.id}.{hashlib.sha256(self.name.encode()).hexdigest()[:8]}@rag-assay>"
        message.set_content(event.body)
        return message

    def _send(self, message: EmailMessage) -> None:
        host, port, security = self.server.smtp_host, self.server.smtp_port, self.server.smtp_security
        context = ssl.create_default_context()
        if security == "tls":
            opened: smtplib.SMTP = smtplib.SMTP_SSL(host, port or 465, timeout=TIMEOUT, context=context)
        else:
            opened = smtplib.SMTP(host, port or 587, timeout=TIMEOUT)
        with opened as smtp:
            if security == "starttls":
                smtp.starttls(context=context)
            if self.server.smtp_user:
                smtp.login(self.server.smtp_user, secret_of(self.server.smtp_password))
            smtp.send_message(message)


Channel = Log | Webhook | Mail
"""Each has a name, by which the journal knows it and which holds nothing secret, and sends an event."""


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


FIRST = 10  # of many that are named


def stored_events(study: str, stages: Mapping[str, Stage], home: Home) -> list[AlertEvent]:
    store = ArtifactStore(home)
    return [*_checks(study, stages, store), *_budgets(study, stages, store), *_best(study, home)]


def _checks(study: str, stages: Mapping[str, Stage], store: ArtifactStore) -> Iterator[AlertEvent]:
    for name, stage in stages.items():
        for key in stage.keys():
            artifact = store.current(name, key)
            for check in checks_of(artifact) if artifact else ():
                if artifact and check.severe and not check.passed:
                    title = f"the check {check.name} of {name} failed"
                    text = f"The check {check.name} of {name} of {key} failed: {check.description}"
                    figures = {"stage": name, "key": key, "check": check.name}
                    of = [name, key, check.name, artifact.identity]
                    yield new_event("check", study, of, title, text, artifact.created_at, figures)


def _budgets(study: str, stages: Mapping[str, Stage], store: ArtifactStore) -> Iterator[AlertEvent]:
    over: dict[str, tuple[int, Artifact]] = {}
    for name in ("answers", "judgements"):
        for key in stages[name].keys() if name in stages else ():
            artifact = store.current(name, key)
            n = (artifact.meta.get("by_status") or {}).get(str(Status.OVER_BUDGET), 0) if artifact else 0
            if artifact and n:
                over[f"{name} of {key}"] = n, artifact
    if over:
        n = sum(count for count, _ in over.values())
        named = "; ".join(f"{count} {what}" for what, (count, _) in list(over.items())[:FIRST])
        text = f"{several(n, 'question')} were left unasked, for the budget of the run was spent: {named}. "
        text += "The next run asks them."
        of, at = zip(
            *((artifact.identity, artifact.created_at) for _, artifact in over.values()), strict=True
        )
        yield new_event("budget", study, [list(of)], "the budget is spent", text, max(at), {"unasked": n})


def _best(study: str, home: Home) -> Iterator[AlertEvent]:
    """Yield that another cell leads: by more than chance (`best`), or among those that tie (`leader`)."""
    entries = entries_of(home, study)[-2:]
    if len(entries) < 2 or not (entries[0].leader and entries[1].leader):
        return
    before, after = entries
    cells = {one.cell: one for one in after.cells}
    then, now = cells.get(before.leader or ""), cells[after.leader or ""]
    if then is None or then is now:  # without it, somebody has taken it out of the study, and knows
        return
    (_, step) = steps([before, after], ArtifactStore(home))
    kind = "best" if step.replaced else "leader"
    what = "the best cell changed" if step.replaced else "another of the tied cells leads"
    figures = {
        "metric": after.metric,
        "before": _figures(before.leading),
        "now": _figures(now),
        "before_now": _figures(then),
        "changed": since_words(step),
    }
    title, text = f"{what}: {_short(now.cell)}", _best_text(before, after, step, then, now)
    yield new_event(kind, study, [after.id], title, text, after.at.isoformat(timespec="seconds"), figures)


def _best_text(
    before: HistoryEntry, after: HistoryEntry, step: HistoryStep, then: CellValue, now: CellValue
) -> str:
    metric = after.primary
    changed = since_words(step) or "only measured values"
    return (
        f"{_short(now.cell)} leads {after.study} by {metric.title} with {_value(now, metric.unit)}. "
        f"Until now it was {_short(then.cell)}, with {_value(before.leading, metric.unit)}; now that has "
        f"{_value(then, metric.unit)}, and is {then.standing}. "
        f"Changed since {before.at:%Y-%m-%d %H:%M} UTC: {changed}. "
        f"More: assay diff {after.study}@1 {after.study}"
    )


def _value(one: CellValue | None, unit: str) -> str:
    return "no value" if one is None else f"{number(one.value, unit)} [{interval(one.low, one.high, unit)}]"


def _figures(one: CellValue | None) -> dict[str, object] | None:
    return None if one is None else {name: getattr(one, name) for name in ("cell", "value", "low", "high")}


def _short(cell: str) -> str:
    return cell.partition(".")[2].replace(".", " · ")


def failure_event(study: str, report: RunReport, recoveries: int) -> AlertEvent | None:
    lines = [
        f"{stage.stage}, {len(keys)} of {stage.keys}: {reason.splitlines()[0]} (first {keys[0]})"
        for stage in report.stages
        for reason, keys in by_reason(stage.failed).items()
    ]
    if not lines:
        return None
    failed = {stage.stage: len(stage.failed) for stage in report.stages if stage.failed}
    more = len(lines) - FIRST
    text = f"A run of {study} failed in part. Finished results are stored; the next run retries the rest.\n"
    text += "\n".join(lines[:FIRST]) + (f"\n… and {several(more, 'other reason')}" if more > 0 else "")
    title = f"{several(sum(failed.values()), 'key')} failed in {', '.join(failed)}"
    return new_event("run", study, [lines, recoveries], title, text, figures={"failed": failed})


RECOVERED = "recovered "
USUAL = frozenset({"run", "check", "best", "budget"})


def channels_of(study: Study) -> list[Channel]:
    found, wanted = Settings(), study.alerts
    own = secret_of(found.alerts_webhook)
    urls = filter(None, [secret_of(wanted.webhook) if wanted else "", own])
    to = (*(wanted.email if wanted else ()), *mail_to(found.alerts_email))
    secret = secret_of(found.alerts_secret)
    channels: list[Channel] = [Log()] if wanted and wanted.log else []
    channels += [Webhook(url, secret, is_own=url == own) for url in dict.fromkeys(urls)]
    if to:
        channels.append(Mail(tuple(dict.fromkeys(to)), found))
    return channels


def tell(
    study: Study,
    stages: Mapping[str, Stage],
    home: Home,
    report: RunReport | None = None,
    further: Sequence[AlertEvent] = (),
) -> None:
    """Tell what has happened to a study and was not told yet; whatever goes wrong is a line in the log."""
    try:
        channels = channels_of(study)
        if not channels:
            return
        with locked(home.root / "alerts" / "lock", wait=False) as mine:
            if not mine:
                return
            journal = Journal(home, study.study)
            about = set(study.alerts.about) if study.alerts else USUAL
            events = [*stored_events(study.study, stages, home), *further]
            if report is not None:
                events += _of_run(study.study, report, journal)
            page = str(home.report(study.study))
            journal.note([replace(one, report=page) for one in events if one.kind in about])
            _send_waiting(study.study, journal, {one.name: one for one in channels})
    except (AssayError, OSError, ValueError) as error:
        log.warning("alerts of %s: %s", study.study, error)


def _of_run(study: str, report: RunReport, journal: Journal) -> list[AlertEvent]:
    # Of each failed run that was told, and of each recovery since, whether it is a recovery.
    marks = [
        is_recovery
        for one in journal.lines()
        if (is_recovery := one["line"].startswith(RECOVERED))
        or (one["line"].startswith("event ") and one.get("kind") == "run")
    ]
    failure = failure_event(study, report, sum(marks))
    if failure is None and report.ok and marks and not marks[-1]:
        journal.mark(f"{RECOVERED}{sum(marks) + 1}")
    return [failure] if failure else []


def _send_waiting(study: str, journal: Journal, channels: Mapping[str, Channel]) -> None:
    broken: set[str] = set()
    for event, name in journal.waiting(list(channels)):
        if name in broken:
            continue  # it is tried again by the next run
        try:
            channels[name].send(event)
        except DeliveryError as error:
            broken.add(name)
            log.warning("alert of %s was not sent: %s; the next run tries again", study, error)
        else:
            journal.sent(event, name)


def try_out(study: Study, home: Home) -> list[tuple[str, str]]:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    event = new_event("test", study.study, [at], "this is a test", "This is a test alert of rag-assay.", at)
    event = replace(event, report=str(home.report(study.study)))
    found = []
    for channel in channels_of(study):
        reason = ""
        try:
            channel.send(event)
        except DeliveryError as error:
            reason = str(error)
        found.append((channel.name, reason))
    return found
