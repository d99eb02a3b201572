"""What is typed for an alert is never printed, wherever in a study file or the environment it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.alerts.delivery import DeliveryError, Mail, mail_to
from rag_assay.orchestration.alerts.journal import AlertEvent
from rag_assay.orchestration.settings import Settings
from rag_assay.warehouse.errors import InputError
from tests.fakes.receivers import IN_URL
from tests.orchestration.conftest import write_study

URL = "http://robot:pa55-word@hooks.example.org/hooks/s3cret-path?token=t0ken-one"


@pytest.mark.parametrize(
    "typed",
    [
        "alerts: 'URL'",
        "alerts: ['URL']",
        "alerts: {webhook: ['URL']}",
        "alerts: {webhook: {url: 'URL'}}",
        "alerts: {webhok: 'URL'}",
        "alerts: {email: 'URL'}",
        "alerts: {email: ['URL']}",
        "alerts: {about: ['URL']}",
        "alerts: {log: 'URL'}",
        "alerts: {'URL': 1}",
        "alerts: {webhook: 'URL}",
        "alerts: {smtp_password: pa55-word}",
        "webhook: 'URL'",
        "'URL': 1",
    ],
)
def test_a_mistake_in_a_study_file_names_the_line_and_no_secret(tmp_path: Path, typed: str) -> None:
    path = write_study(tmp_path)
    text = path.read_text()
    path.write_text(text + typed.replace("URL", URL) + "\n")
    with pytest.raises(InputError) as caught:
        read_study(path)
    assert f"{path}:{len(text.splitlines()) + 1}: " in str(caught.value)
    assert not [secret for secret in IN_URL if secret in str(caught.value)]


def test_a_study_holds_its_webhook_as_a_secret(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    path.write_text(f"{path.read_text()}alerts: {{webhook: '{URL}'}}\n")
    study = read_study(path)
    shown = f"{study!r}{study.alerts}{study.model_dump()}{study.model_dump_json()}"
    assert not [secret for secret in IN_URL if secret in shown]


def test_what_cannot_be_an_address_is_not_repeated() -> None:
    with pytest.raises(InputError, match="a URL is not an e-mail address") as caught:
        mail_to(f"a@example.org, {URL}")
    assert not [secret for secret in IN_URL if secret in str(caught.value)]


def test_a_mail_server_typed_with_its_password_is_named_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_SMTP_PASSWORD", "pass-w0rd-two")
    event = AlertEvent("0", "test", "town", f"see {URL}", f"no answer of {URL}", "2026-11-24T05:00:00+00:00")
    for host in ("smtp://robot:pa55-word@127.0.0.1", "pass-w0rd-two.invalid"):
        with pytest.raises(DeliveryError) as caught:
            Mail(("a@example.org",), Settings(smtp_host=host, smtp_port=1)).send(event)
        said = f"{caught.value}{event.subject}{event.body}{event.payload()}"
        assert not [secret for secret in (*IN_URL, "pass-w0rd-two") if secret in said]
