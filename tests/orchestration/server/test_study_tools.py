"""`assay mcp`, by the real client of the SDK over standard input and output."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from rag_assay.evals.reporting.rows import report_data
from rag_assay.evals.reporting.stale_results import stored_result
from rag_assay.evals.study.study_file import read_study
from rag_assay.orchestration.server.study_tools import RunForm, StudyTools
from rag_assay.warehouse.errors import AssayError
from rag_assay.warehouse.inference.embedding_api import OF_ALL
from tests.fakes import forking
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, embeddings
from tests.orchestration.conftest import Finished

pytestmark = pytest.mark.models
Call = Callable[..., Awaitable[tuple[str, dict[str, Any]]]]


def talk(work: Callable[[Any, Call], Awaitable[None]], *arguments: str) -> None:
    """Start the server as an agent does, and talk to it."""
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    started = forking.command("-m", "rag_assay.orchestration.start", "mcp", *arguments)
    server = StdioServerParameters(command=started[0], args=started[1:], env=dict(os.environ))

    async def main() -> None:
        async with Client(stdio_client(server)) as client:

            async def call(name: str, *, fails: bool = False, **given: Any) -> tuple[str, dict[str, Any]]:
                found = await client.call_tool(name, given)
                (part,) = found.content
                assert bool(found.is_error) is fails, part.text
                return part.text, found.structured_content or {}

            await work(client, call)

    anyio.run(main)


def test_an_agent_plans_runs_and_looks_at_a_study(finished: Finished) -> None:
    study = read_study(finished.path)
    verdict = stored_result(study, finished.home, as_run=True).verdict
    words, meaning = (f"t16.minilm.{name}.quote" for name in ("words", "meaning"))
    data = report_data(study, finished.home, with_hits=False)

    async def work(client: Any, call: Call) -> None:
        tools = (await client.list_tools()).tools
        assert [one.name for one in tools] == ["studies", "plan", "run", "verdict", "compare", "question"]
        assert [one.name for one in tools if not one.annotations.read_only_hint] == ["run"]
        text, record = await call("studies")
        assert "town: 2 cells, was run" in text.splitlines()
        text, record = await call("plan", study="town")
        assert (record["calls"], set(record["stages"].values())) == ([], {0})
        assert text == "Everything is up to date.\nUS dollars left: 0."
        text, record = await call("verdict", study="town")
        assert text.splitlines()[: len(verdict.sentences)] == list(verdict.sentences)
        assert record == json.loads(json.dumps(verdict.row()))
        text, record = await call("compare", study="town", first=words, second=meaning)
        means = [
            data.leaderboard.filter(metric="ndcg@10", cell=f"town.{name}")["value"].item()
            for name in (words, meaning)
        ]
        assert record["metric"] == "ndcg@10"
        assert record["difference"] == pytest.approx(means[0] - means[1])
        assert text.startswith("Mean difference of")
        text, record = await call("question", study="town", question="q1", cell=words)
        assert record["evidence"] == [
            {"url": "harbour.txt", "quote": "A mooring costs twelve pounds a night"}
        ]
        assert record["passages"][0]["is_evidence"]
        assert "twelve pounds" in record["answer"]["answer"]
        assert {"ndcg@10", "rouge_l"} <= {one["metric"] for one in record["scores"]}
        assert json.loads(text) == record
        text, record = await call("run", study="town", cells=["*.words.*"], questions=2)
        assert text.endswith("The run cost 0 US dollars; 0 are left.")
        assert record["study"].startswith("town~") or record["study"] != "town"
        await call("verdict", study=record["study"])  # its name can be used from now on

    talk(work, str(finished.path))


def test_what_an_agent_may_not_do_is_refused(finished: Finished, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(finished.path.read_text().replace("study: town", "study: other"))
    priced = "  gpt: {llm: {model: openai/gpt-4o-mini, passages: 1}}\n"
    own = "  own: {llm: {model: openai/mine, api_base: 'http://127.0.0.1:9/v1', passages: 1}}\n"

    async def work(_client: Any, call: Call) -> None:
        async def refused(name: str, **given: Any) -> str:
            return (await call(name, fails=True, **given))[0]

        for path in (str(other), str(finished.path), "../town", "town.yaml"):
            assert "there is no study" in await refused("plan", study=path)
        assert "`path`: Extra inputs" in await refused("run", study="town", path="/etc")
        assert "there is no tool 'shell'" in await refused("shell")
        assert "no metric 'mrr'" in await refused(
            "compare",
            study="town",
            first="t16.minilm.words.quote",
            second="t16.minilm.meaning.quote",
            metric="mrr",
        )
        assert "q9" in await refused("question", study="town", question="q9")
        finished.edit("  quote: {", f"{priced}  quote: {{")
        text = await refused("run", study="town")
        assert "the run would cost at least" in text
        assert "start `assay mcp` with a higher --budget-usd" in text
        text, record = await call("plan", study="town")
        assert record["calls"][0]["model"] == "openai/gpt-4o-mini"
        assert record["calls"][0]["usd"][0] > 0
        finished.edit(priced, own)
        assert "the price of openai/mine is not known" in await refused("run", study="town")

    talk(work, str(finished.path))


def test_all_runs_together_cost_the_budget_and_one_call_at_most(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OF_ALL, "within", None)

    def dear(received: Received) -> Scripted:
        """Answer with a million tokens: 0.3 US dollars of the generator, 0.02 of the embedder."""
        if not received.path.endswith("/embeddings"):
            return answer("Twelve pounds.", prompt_tokens=1_000_000, completion_tokens=0)
        body = json.loads(embeddings(received).body)
        return Scripted(json.dumps({**body, "usage": {"prompt_tokens": 1_000_000}}).encode())

    with FakeOpenAI(respond=dear) as server:
        at = f"'{server.api_base}'"
        priced = f"api_base: {at}, passages: 1, price: {{read: 0.3, written: 1}}"
        for name, most in (("one", 50), ("two", 60)):
            llm = f"  {name}: {{llm: {{model: openai/any, {priced}, max_tokens: {most}}}}}\n"
            finished.edit("  quote: {", f"{llm}  quote: {{")
        paid = f"{{model: openai/text-embedding-3-small, batch_size: 1, api: {{base: {at}, retries: 0}}}}"
        finished.edit("retrievers:\n", f"  paid: {paid}\nretrievers:\n")

        def run(tools: StudyTools, *cells: str, questions: int | None = None) -> int:
            """Run a slice; return how many calls it made."""
            before = len(server.requests)
            with suppress(AssayError):
                tools._run(RunForm(study="town", cells=list(cells), questions=questions))
            return len(server.requests) - before

        tools = StudyTools(finished.home, {"town": finished.path}, 0.8)
        one, two = "*.minilm.words.one", "*.minilm.words.two"
        assert [run(tools, one), run(tools, two), run(tools, two, questions=2)] == [2, 1, 0]
        assert tools.left_usd == 0
        tools = StudyTools(finished.home, {"town": finished.path}, 0.05)
        assert [run(tools, "*.paid.meaning.quote") for _ in range(2)] == [3, 0]
        assert tools.left_usd == 0
