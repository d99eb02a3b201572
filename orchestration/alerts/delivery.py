"""Sends the alerts of a study: once, and never at the cost of a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rag_assay.orchestration.alerts.channels import (
    Channel,
    DeliveryError,
    Log,
    Mail,
    MailSettings,
    Webhook,
    mail_to,
)
from rag_assay.orchestration.alerts.events import failure_event, stored_events
from rag_assay.orchestration.alerts.journal import AlertEvent, Journal, alone_telling
from rag_assay.orchestration.settings import Settings
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.identity import digest

if TYPE_CHECKING:
    from rag_assay.assets.engine.stage import Stage
    from rag_assay.evals.study.study import Study
    from rag_assay.orchestration.run_report import RunReport
    from rag_assay.warehouse.paths import Home

log = logging.getLogger("assay.alerts")
RECOVERED = "recovered "
USUAL = frozenset({"run", "check", "best", "budget"})


def channels_of(study: Study, settings: Settings | None = None) -> list[Channel]:
    """Return the channels that a study's alerts go to: those of its file and those of the environment."""
    found = settings or Settings()
    wanted = study.alerts
    secret = found.alerts_secret.get_secret_value() if found.alerts_secret else ""
    webhooks = [wanted.webhook] if wanted and wanted.webhook else []
    own = [found.alerts_webhook.get_secret_value()] if found.alerts_webhook else []
    urls = [*(one.get_secret_value() for one in webhooks), *own]
    to = (*(wanted.email if wanted else ()), *mail_to(found.alerts_email))
    channels: list[Channel] = [Webhook(url, secret, is_own=url in own) for url in dict.fromkeys(urls)]
    if to:
        password = found.smtp_password.get_secret_value() if found.smtp_password else ""
        server = MailSettings(
            found.smtp_host, found.smtp_port, found.smtp_security, found.smtp_user, password, found.smtp_from
        )
        channels.append(Mail(tuple(dict.fromkeys(to)), server))
    if wanted is None:
        return channels
    return [*([Log()] if wanted.log else []), *channels]


def tell(
    study: Study,
    stages: Mapping[str, Stage],
    home: Home,
    report: RunReport | None = None,
    further: Sequence[AlertEvent] = (),
) -> None:
    """Tell what has happened to a study and was not told yet; whatever goes wrong is a line in the log.

    report: of the walk that has just ended
    further: what else has happened
    """
    try:
        channels = channels_of(study)
        if not channels:
            return
        with alone_telling(home) as mine:
            if mine:
                _tell(study, stages, home, report, further, channels)
    except (AssayError, OSError, ValueError) as error:
        log.warning("alerts of %s: %s", study.study, error)


def _tell(
    study: Study,
    stages: Mapping[str, Stage],
    home: Home,
    report: RunReport | None,
    further: Sequence[AlertEvent],
    channels: Sequence[Channel],
) -> None:
    journal = Journal(home, study.study)
    about = set(study.alerts.about) if study.alerts else USUAL
    events = [*stored_events(study.study, stages, home), *further]
    if report is not None:
        ended = [one["line"] for one in journal.lines()]
        recovered = [one for one in ended if one.startswith(RECOVERED)]
        failure = failure_event(study.study, report, recovered, home)
        if failure:
            events.append(failure)
        elif report.ok and _is_failing(journal):
            journal.mark(f"{RECOVERED}{len(recovered) + 1}")
    journal.note([one for one in events if one.kind in about])
    by_name = {one.name: one for one in channels}
    broken: set[str] = set()
    for event, name in journal.waiting(list(by_name)):
        if name in broken:
            continue  # it is tried again by the next run
        try:
            by_name[name].send(event)
        except DeliveryError as error:
            broken.add(name)
            log.warning("alert of %s was not sent: %s; the next run tries again", study.study, error)
        else:
            journal.sent(event, name)


def _is_failing(journal: Journal) -> bool:
    for line in reversed(journal.lines()):
        if line["line"].startswith(RECOVERED):
            return False
        if line["line"].startswith("event ") and line.get("kind") == "run":
            return True
    return False


def try_out(study: Study, home: Home) -> list[tuple[str, str]]:
    """Send a message to every channel of a study; return what each is called, and what came of it."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    event = AlertEvent(
        digest(["test", study.study, at]),
        "test",
        study.study,
        f"{study.study}: this is a test",
        "Somebody has asked rag-assay whether its alerts arrive. They do.",
        at,
        str(home.report(study.study)),
    )
    found = []
    for channel in channels_of(study):
        try:
            channel.send(event)
        except DeliveryError as error:
            found.append((channel.name, str(error)))
        else:
            found.append((channel.name, ""))
    return found
