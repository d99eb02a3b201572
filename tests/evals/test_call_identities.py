"""What an earlier version has paid for is found again: calls and recipes of equal meaning keep their ids.

The golden file was written by the version before `ChatModel`; whoever changes a prompt, a schema or a default
on purpose writes it again (`python -m tests.evals.test_call_identities`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rag_assay.assets.documents import Documents
from rag_assay.assets.engine.builder import build_keys
from rag_assay.assets.engine.stage import BuildContext
from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference import chat_completions
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.source import Source
from tests.fakes.tiny import QUESTIONS, TEXTS, Bench, write_study

GOLDEN = Path(__file__).with_name("call_identities.golden.json")
BASE = "http://127.0.0.1:9/v1"
CHAT = f"model: openai/any, api_base: '{BASE}'"
BY_MODEL = f"by: llm, {CHAT}"
CHANGES = {
    "{reader: folder, path: docs}": "{reader: folder, path: docs, date_by: {" + CHAT + ", budget_usd: 1}}",
    "{tokens: {size: 16, overlap: 4}}": "{tokens: {size: 16, overlap: 4}, enrich: {"
    + CHAT
    + ", summary: true, questions: 2, budget_usd: 1}}",
    "  bm25: {bm25: {k: 5}}\n": "".join(
        f"  {kind}: [{{{kind}: {{{BY_MODEL}{more}}}}}, {{bm25: {{k: 5}}}}]\n"
        for kind, more in {
            "follow_up": "",
            "time_frame": ", undated: keep",
            "keywords": ", synonyms: 2",
            "multi_query": ", n: 4",
            "hyde": ", text: passage",
            "entities": "",
            "filter": "",
        }.items()
    ),
    "  dense: {dense: {k: 5}}\n": "  rules: [{follow_up: {}}, {hyde: {}}, {bm25: {k: 5}}]\n",
    "generators:\n": "generators:\n"
    "  plain: {llm: {" + CHAT + ", passages: 2}}\n"
    "  warm: {llm: {" + CHAT + ", temperature: 0.7, max_tokens: 64}}\n"
    "  small: {llm: {model: local/smollm2-135m-instruct}}\n",
    "questions:\n": "restrict:\n"
    "  plain: {retrievers: [rules, hyde]}\n"
    "  warm: {retrievers: [hyde]}\n"
    "  small: {retrievers: [rules], sample: 1}\n"
    "questions:\n",
}
FOLLOWING = """\
  - id: return
    question: And when does it return?
    conversation: [When does the ferry leave?, At noon.]
    ground_truth: Before dusk.
"""
SAID: dict[str, object] = {
    "follow_up": {"depends": True, "standalone": "When does the ferry return?"},
    "time_frame": {"published_from": "", "published_to": ""},
    "keywords": {"keywords": [{"word": "ferry", "synonyms": ["boat"]}]},
    "multi_query": {"questions": ["When does the boat leave?"]},
    "hyde": {"passage": "The ferry leaves at noon."},
    "entities": {"entities": [{"kind": "ship", "text": "ferry"}]},
    "filter": {"groups": []},
    "questions": {"questions": ["When does the ferry leave?"]},
    "publication_date": {"date": None, "evidence": None},
}


def completion(request: dict[str, Any], *_where: object) -> dict[str, Any]:
    """Answer like a server, by what the schema of the request is called."""
    schema = request.get("response_format")
    text = json.dumps(SAID[schema["json_schema"]["name"]]) if schema else "At noon."
    message = {"role": "assistant", "content": text}
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def identities(folder: Path) -> dict[str, Any]:
    """Build the stages that ask models; return what they hang on, and the calls that they made."""
    path = write_study(folder / "study", CHANGES, QUESTIONS + FOLLOWING)
    bench = Bench(path, Home(folder / "home"))
    bench.give(TEXTS)
    built = bench.build("chunks", "enrichments", "embeddings", "indexes", "questions", "rankings")
    assert all(one.ok for outcomes in built.values() for one in outcomes), built
    answers = bench.stages["answers"]
    found: dict[str, Any] = {"recipes": {}, "calls": {}, "purposes": {}}
    for stage in ("enrichments", "rankings", "answers"):
        for key in bench.stages[stage].keys():
            found["recipes"] |= _of_models(bench.stages[stage].recipes(key))
    for name, date_by in _dated():
        source = Source.model_validate({"reader": "folder", "path": "x", "date_by": date_by})
        documents = Documents(SimpleNamespace(sources={"town": source}))  # type: ignore[arg-type]
        found["recipes"] |= {f"dates {name}": one for one in documents.recipes("town").values()}
    work = BuildContext(bench.home)
    keys = [key for key in answers.keys() if ".small" not in key and ".extractive" not in key]
    outcomes = list(build_keys(answers, keys, work))
    work.close()
    assert all(one.ok for one in outcomes), outcomes
    for record in CallCache(Home(folder / "home")).rows():
        request = json.loads(record["request"])
        schema = request["response_format"]
        name = schema["json_schema"]["name"] if schema else "text"
        found["calls"][record["call_id"]] = f"{name}: {request['messages'][-1]['content'][-60:]}"
        paid_for = tuple(record[column] for column in ("purpose", "study", "cell", "question"))
        found["purposes"].setdefault(name, []).append(paid_for)
    return found


def _of_models(recipes: dict[str, str]) -> dict[str, str]:
    kinds = ("enrich.", "retriever.", "generator.")
    return {name: one for name, one in recipes.items() if name.startswith(kinds)}


def _dated() -> list[tuple[str, Any]]:
    return [
        ("remote", {"model": "openai/any", "api_base": BASE}),
        ("budget", {"model": "openai/any", "budget_usd": 2}),
        ("local", {"model": "local/smollm2-135m-instruct"}),
    ]


@pytest.mark.models
def test_equal_meanings_have_the_ids_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: object
) -> None:
    monkeypatch.setattr(chat_completions, "complete", completion)
    found, golden = identities(tmp_path), json.loads(GOLDEN.read_text())
    assert found["recipes"] == golden["recipes"]
    assert found["calls"] == golden["calls"]
    check_purposes(found["purposes"])


def check_purposes(paid_for: dict[str, list[tuple[str | None, ...]]]) -> None:
    """Each call says what it was made for: by the schema that it was asked with."""
    questions = {"noon", "tickets", "captain", "return"}
    enriched = [*paid_for["questions"], *(one for one in paid_for["text"] if one[0] == "enrich")]
    assert set(enriched) == {("enrich", None, "ferries.t16", None)}
    answered = [one for one in paid_for["text"] if one[0] != "enrich"]
    assert {one[:2] for one in answered} == {("answers", "tiny")}
    generators = {(cell or "").partition("tiny.t16.minilm.")[2] for _, _, cell, _ in answered}
    assert generators == {"rules.plain", "hyde.plain", "hyde.warm"}
    assert {one[3] for one in answered} == questions
    for kind in SAID.keys() - {"questions", "publication_date"}:
        assert {one[:3] for one in paid_for[kind]} == {("understanding", "tiny", f"tiny.t16.minilm.{kind}")}
        assert {one[3] for one in paid_for[kind]} <= questions


if __name__ == "__main__":
    chat_completions.complete = completion
    with tempfile.TemporaryDirectory() as scratch:
        golden = {name: found for name, found in identities(Path(scratch)).items() if name != "purposes"}
        text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
    (Path(sys.argv[1]) if sys.argv[1:] else GOLDEN).write_text(text + "\n", encoding="utf-8")
