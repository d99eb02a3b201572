"""No secret of a study stands in anything that a run, a report, an export or a command writes."""

from __future__ import annotations

import io
import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import dagster as dg
import pytest

from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.study_definitions import definitions_of
from rag_assay.warehouse.history import history_records
from rag_assay.warehouse.paths import Home
from tests.fakes.canaries import contents, leaks
from tests.fakes.commands import assay
from tests.fakes.judges import REPLIES
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, embeddings, failure
from tests.fakes.openai_server import answer as completion
from tests.fakes.receivers import Hook, Mailbox, hook, mailbox
from tests.orchestration.conftest import write_study

pytestmark = pytest.mark.models

SECRETS = {
    "key of the generator": "Kq7genkey0001canary",
    "key of the judge": "Kq7judgekey0002canary",
    **{
        f"{part} of the {role}": f"{part}{n}{role} canary/0{n}@"
        for n, role in enumerate(("generator", "judge", "embedder", "broken", "other"))
        for part in ("user", "password", "query")
    },
    **{
        f"{part} of the webhook of the {place}": f"{part}9{place} canary/09@"
        for place in ("study", "environment")
        for part in ("user", "password", "query")
    },
    "path of the webhook of the study": "pathOfStudy1canary",
    "path of the webhook of the environment": "pathOfEnv2",
    "signing secret": "signing7canary0009",
    "password of the mail server": "smtp8canary0010",
    "password of the chat": "chatpage5canary0011",
}
STUDY = """\
study: town
sources:
  texts: {reader: folder, path: texts}
corpus: {name: town, sources: [texts]}
chunkings:
  t16: {tokens: {size: 16, overlap: 4}}
embedders:
  api: {model: openai/embed, api: {base: "BASE_embedder", retries: 2}}
  broken: {model: openai/embed, api: {base: "${BROKEN_BASE}", retries: 2}}
retrievers:
  meaning: {dense: {k: 5}}
generators:
  far: {llm: {model: openai/far, api_base: "BASE_generator", limits: {retries: 2}}}
  litellm: {llm: {model: mistral/other, api_base: "${OTHER_BASE}", limits: {retries: 2}}}
judges:
  grader: {criteria: {model: mistral/judge, metrics: [correctness], limits: {retries: 2}}}
questions: [{file: town.questions.yaml}]
metrics: [ndcg@10, rouge_l]
alerts: {webhook: "${TEAM_CHANNEL}", email: [a@example.org]}
"""


def secret(name: str) -> str:
    return quote(SECRETS[name], safe="")


def pair(role: str) -> str:
    return f"{SECRETS[f'user of the {role}']}:{SECRETS[f'password of the {role}']}"


def hidden(url: str, role: str, path: str = "") -> str:
    """A URL with user, password, path and query that are secrets."""
    scheme, _, rest = url.partition("://")
    user, password = secret(f"user of the {role}"), secret(f"password of the {role}")
    return f"{scheme}://{user}:{password}@{rest}{path}?key={secret(f'query of the {role}')}"


PAIRS = {
    f"base64 of the {role}": pair(role) for role in ("generator", "judge", "embedder", "broken", "other")
}
ECHO = " ".join([*SECRETS.values(), *map(quote, SECRETS.values())])
ECHO += " ".join(b64encode(one.encode()).decode() for one in (*SECRETS.values(), *PAIRS.values()))


def leaking(scripted: Scripted) -> Scripted:
    """The same answer, which tells all secrets wherever a server can put a text."""
    body = json.loads(scripted.body) | {"model": ECHO, "id": ECHO, "system_fingerprint": ECHO, ECHO: [ECHO]}
    headers = {"x-request-id": ECHO, "WWW-Authenticate": f"Basic {ECHO}", "x-echo": ECHO}
    return Scripted(json.dumps(body).encode(), scripted.status, headers)


def reply(got: Received) -> Scripted:
    prompt = got.body["messages"][-1]["content"]
    if schema := got.body.get("response_format", {}).get("json_schema"):
        verdict = REPLIES["grade"](prompt, got.body)
        assert isinstance(verdict, dict), schema
        return leaking(completion(json.dumps({**verdict, "reason": f"It leaks {ECHO}."})))
    if "mayor" in prompt:
        return leaking(failure(400, f"no {ECHO}", code=ECHO))
    return leaking(completion(f"Nineteen cars [1]. It leaks {ECHO}."))


@dataclass
class Town:
    """The study, who is asked and told, and what was printed."""

    path: Path
    home: Home
    hooks: list[Hook]
    mail: Mailbox
    servers: dict[str, FakeOpenAI]
    printed: list[tuple[str, bytes]] = field(default_factory=list)

    def assay(self, *arguments: str, code: int = 0) -> str:
        done = assay(*arguments, folder=self.path.parent)
        self.printed += [(f"stdout of {arguments}", done.stdout.encode())]
        self.printed += [(f"stderr of {arguments}", done.stderr.encode())]
        assert done.returncode == code, f"{arguments}: {done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture
def town(tmp_path: Path, assay_home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    with ExitStack() as stack:
        roles = ("generator", "judge", "other", "embedder", "broken")
        servers = {role: stack.enter_context(FakeOpenAI(respond=reply)) for role in roles}
        servers["embedder"].respond = lambda got: leaking(embeddings(got))
        servers["broken"].respond = lambda _: leaking(failure(401, f"no {ECHO}", code=ECHO))
        bases = {role: hidden(server.api_base, role) for role, server in servers.items()}
        hooks = [stack.enter_context(hook()) for _ in range(2)]
        hooks[0].replies = [(500, {"x-echo": ECHO}), (200, {})]
        hooks[1].replies = [(302, {"Location": f"http://127.0.0.1:9/{quote(ECHO)}"})]
        mail = stack.enter_context(mailbox())
        mail.refuses = f"554 no {ECHO}".encode()
        study_hook = hidden(
            f"{origin(hooks[0])}/x/{SECRETS['path of the webhook of the study']}", "webhook of the study"
        )
        env_hook = hidden(
            f"{origin(hooks[1])}/y/{SECRETS['path of the webhook of the environment']}",
            "webhook of the environment",
        )
        for name, value in {
            "OPENAI_API_KEY": SECRETS["key of the generator"],
            "MISTRAL_API_KEY": SECRETS["key of the judge"],
            "MISTRAL_API_BASE": bases["judge"],
            "OTHER_BASE": bases["other"],
            "BROKEN_BASE": bases["broken"],
            "TEAM_CHANNEL": study_hook,
            "ASSAY_ALERTS_WEBHOOK": env_hook,
            "ASSAY_ALERTS_SECRET": SECRETS["signing secret"],
            "ASSAY_UI_PASSWORD": SECRETS["password of the chat"],
            "ASSAY_SMTP_HOST": "127.0.0.1",
            "ASSAY_SMTP_PORT": str(mail.port),
            "ASSAY_SMTP_SECURITY": "none",
            "ASSAY_SMTP_USER": mail.user,
            "ASSAY_SMTP_PASSWORD": SECRETS["password of the mail server"],
        }.items():
            monkeypatch.setenv(name, value)
        mail.password = SECRETS["password of the mail server"]
        path = write_study(tmp_path)
        text = re.sub(r"BASE_(\w+)", lambda found: bases[found[1]], STUDY)
        path.write_text(text)
        yield Town(path, assay_home, hooks, mail, servers)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What libraries log where a person lets them log everything."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    loggers = [logging.getLogger(name) for name in ("httpx", "httpcore", "openai", "LiteLLM", "urllib3")]
    before = [one.level for one in loggers]
    for one in loggers:
        one.addHandler(handler)
        one.setLevel(logging.DEBUG)
    yield stream
    for one, level in zip(loggers, before, strict=True):
        one.removeHandler(handler)
        one.setLevel(level)


def origin(one: Hook) -> str:
    return f"http://{one.url.split('@')[1].split('/')[0]}"


def launched(path: Path) -> list[tuple[str, bytes]]:
    """Run the job of a study as the UI does; return what its event log holds."""
    study = read_study(path)
    job = definitions_of([study]).resolve_job_def("study_town")
    with dg.DagsterInstance.get() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        assert not result.success
        ended = [one for one in result.all_events if one.is_step_failure]
        assert ended[-1].step_key == "report", [(one.step_key, one.message) for one in ended]
        logged = [repr(one) for one in instance.all_logs(result.run_id)]
        runs = [repr(one) for one in instance.get_runs()]
    return [("Dagster's log", "\n".join([*logged, *runs]).encode())]


def test_no_secret_stands_in_anything_that_is_written(
    town: Town, logged: io.StringIO, tmp_path: Path
) -> None:
    study = str(town.path)
    town.assay("check", study)
    town.assay("run", study, "--dry-run")
    town.assay("run", study, code=1)
    assert len(history_records(town.home, "town")) == 1, town.printed[-2:]
    text = town.path.read_text()
    town.path.write_text(text.replace("model: openai/far,", "model: openai/far, temperature: 0.5,"))
    town.printed += launched(town.path)
    assert len(history_records(town.home, "town")) == 2, town.printed[-2:]
    for form in ("html", "json", "markdown", "csv"):
        town.assay("report", study, "--format", form)
    out = tmp_path / "out"
    town.assay("report", study, "--format", "parquet", "--output", str(out / "report.parquet"))
    for form in ("text", "json"):
        town.assay("verdict", study, "--format", form)
        town.assay("ask", study, "How many cars?", "--cell", "t16.api.meaning.far", "--format", form)
    for form in ("table", "json", "markdown", "html"):
        town.assay("list", study, "--format", form)
        town.assay("diff", "town@1", "town", "--format", form)
    town.assay("show", study, "q3")
    town.assay("alerts", study, "--test", code=1)
    town.assay("export", study, "t16.api.meaning.far", str(out / "export"))
    town.assay("export", study, "t16.api.meaning.litellm", str(out / "litellm"))
    town.assay("serve", str(out / "litellm"), "--port", "0", "--check", "2")

    assert "HTTP Request: POST http://127.0.0.1" in logged.getvalue()
    town.printed.append(("the log of libraries", logged.getvalue().encode()))
    assert all(server.requests for server in town.servers.values())
    assert all(one.posted for one in town.hooks)
    told = [(f"what {one.url} is told", body) for one in town.hooks for _, body in one.posted]
    written = [*town.printed, *told, *contents(town.home.root), *contents(out)]
    assert b"It leaks *** ***" in b"".join(content for _, content in written), "nothing is looked at"
    assert any(b"carries nineteen cars" in content for name, content in written if name.endswith(".lance"))
    found = leaks({**SECRETS, **PAIRS}, written)
    assert not found, "\n".join(found)
