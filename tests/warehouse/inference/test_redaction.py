"""Secrets are taken out of texts in every usual encoding; what an answer may say by chance is left."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from urllib.parse import quote

import pytest

from rag_assay.warehouse.inference.redaction import (
    encode_without_secrets,
    keep_secrets_out_of_logs,
    know_secret,
    know_url,
    one_line,
    secrets_in,
    without_secrets,
)

HOOK = "https://robot-zq71:pa5+word-zq72@chat.example/services/T0ZQ73AB/{}?thread=3&token=t0ken-zq74"


@pytest.mark.parametrize("name", ["ASSAY_ALERTS_WEBHOOK", "TEAM_HOOK_URL"])
def test_a_webhook_of_the_environment_is_a_secret_in_all_its_parts(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    url = HOOK.format("aZq75bZq76cZq77")
    monkeypatch.setenv(name, url)
    pair = b64encode(b"robot-zq71:pa5+word-zq72").decode()
    parts = ["robot-zq71", "pa5+word-zq72", "T0ZQ73AB", "aZq75bZq76cZq77", "t0ken-zq74", pair, url]
    echoed = [one for part in parts for one in (part, quote(part), quote(part, safe=""))]
    assert set(without_secrets(echoed)) == {"***"}
    assert without_secrets("services chat.example thread") == "services chat.example thread"
    assert secrets_in(f"posted by {pair}") == [name]


def test_a_secret_that_is_set_changed_or_removed_later_is_known_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = "first-Zq11!x second-Zq12!x third-Zq13!x"
    assert without_secrets(said) == said
    monkeypatch.setenv("SOME_API_KEY", "first-Zq11!x")
    assert without_secrets(said) == "*** second-Zq12!x third-Zq13!x"
    monkeypatch.setenv("SOME_API_KEY", "second-Zq12!x")
    know_secret("third-Zq13!x")
    assert without_secrets(said) == "first-Zq11!x *** ***"
    monkeypatch.delenv("SOME_API_KEY")
    assert without_secrets(said) == "first-Zq11!x second-Zq12!x ***"


@pytest.mark.parametrize("secret", ['quote"Zq21\\x', "schlüssel-Zq22!x", "ключ-Zq23!x", "new\nline-Zq24!x"])
def test_a_secret_is_found_in_json_wherever_it_stands(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("SOME_API_KEY", secret)
    plain, text = encode_without_secrets({"a": [f"\ud800 é {secret}.", {secret: 1}], "b": quote(secret)})
    assert plain == {"a": ["\ud800 é ***.", {"***": 1}], "b": "***"}
    assert json.loads(text) == plain


def test_credentials_in_any_url_of_the_environment_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy-zq81:pa55-zq82@10.0.0.1:3128")
    monkeypatch.setenv("RESULTS_DSN", "postgresql://writer:pa55-zq83@db.example/assay?sslmode=require")
    said = one_line("no answer of proxy-zq81:pa55-zq82@10.0.0.1, nor for pa55-zq83 with sslmode require")
    assert said == "no answer of ***:***@10.0.0.1, nor for *** with sslmode require"


@pytest.mark.parametrize(
    ("name", "secret", "text"),
    [
        ("OPENAI_API_KEY", "lm-studio", "Start lm-studio, then load the model."),
        ("OPENAI_API_KEY", "not-needed", "A permit is not-needed here."),
        ("ASSAY_CHAT_PASSWORD", "lighthouse", "The lighthouse has one lamp."),
        ("ASSAY_CHAT_PASSWORD", "2024-10-21", "It opened on 2024-10-21."),
        ("AZURE_API_BASE", "https://h.example/v1?api-version=2024-10-21", "It opened on 2024-10-21."),
        ("OPENAI_BASE_URL", "http://service:p@h.example/v1?region=eu-west-1", "The service of eu-west-1."),
    ],
)
def test_an_answer_keeps_a_word_or_a_date_that_is_also_a_secret(
    monkeypatch: pytest.MonkeyPatch, name: str, secret: str, text: str
) -> None:
    monkeypatch.setenv(name, secret)
    know_url(secret)
    assert without_secrets({"content": [text]}) == {"content": [text]}
    assert secrets_in(text) == []


@pytest.mark.parametrize(
    "secret", ["Harbour-2024!", "hunter2hunter2", "correct horse battery staple", "qWzXvBnM"]
)
def test_a_password_that_no_text_holds_by_chance_is_taken_out(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("ASSAY_SMTP_PASSWORD", secret)
    assert without_secrets(f"it is {secret}, or {quote(secret)}") == "it is ***, or ***"


def test_a_reason_holds_no_secret_however_plain_it_is() -> None:
    know_secret("quaysides")
    assert one_line("no such user: quaysides") == "no such user: ***"
    assert without_secrets("The quaysides were rebuilt.") == "The quaysides were rebuilt."


def test_what_http_clients_log_holds_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    know_secret("k3y-of-logs-zq91")
    keep_secrets_out_of_logs()
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore.http11", "openai._base_client", "LiteLLM"):
        try:
            int("k3y-of-logs-zq91")
        except ValueError:
            logging.getLogger(name).exception("GET %s", "http://h.example/?key=k3y-of-logs-zq91")
    logging.getLogger("somebody").info("their own business")
    assert "k3y-of-logs-zq91" not in caplog.text
    assert caplog.text.count("with base 10: '***'") == 4
    assert caplog.messages[-1] == "their own business"
