"""Python systems: functions, objects of RAG libraries by their methods, failures, imports, documents."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rag_assay.evals.generation.contract import Passage
from rag_assay.evals.pipeline.system_answers import PassageAligner
from rag_assay.evals.study.registry import read_generator
from rag_assay.evals.systems.given_passages import UnreadableError, read_passages
from rag_assay.evals.systems.python_system import code_digest, load, missing_module, respond, within

HISTORY = [{"role": "user", "content": "Is there a ferry?"}, {"role": "assistant", "content": "Yes."}]
TEXTS = ["The ferry leaves at noon.", "Tickets are sold on the quay."]


def texts_of(found: dict[str, Any]) -> list[str]:
    return [one["text"] for one in found["passages"]]


def test_functions_return_texts_mappings_and_lists() -> None:
    def with_history(question: str, history: list[dict[str, str]]) -> dict[str, Any]:
        return {"answer": f"{question} after {len(history)}", "passages": [{"text": TEXTS[0], "url": "a"}]}

    async def later(question: str) -> str:
        return f"late: {question}"

    assert respond(lambda question: question.upper(), "why", HISTORY) == {"answer": "WHY", "passages": None}
    found = respond(with_history, "When?", HISTORY)
    assert (found["answer"], found["passages"][0]["url"]) == ("When? after 2", "a")

    def by_keyword(question: str, k: int = 3, *, history: list[dict[str, str]] | None = None) -> str:
        return f"{question} {k} {len(history or ())}"

    assert respond(by_keyword, "why", HISTORY)["answer"] == "why 3 2"
    assert respond(lambda _: {"answer": {"text": "A"}}, "why", [])["answer"] == "A"
    scored = respond(lambda _: [{"text": "t", "score": np.float32(0.5)}], "why", [])
    assert scored["passages"][0]["score"] == 0.5
    assert respond(later, "why", [])["answer"] == "late: why"
    assert texts_of(respond(lambda _: TEXTS, "why", [])) == TEXTS
    assert respond(lambda _: (), "why", []) == {"answer": None, "passages": []}
    for nothing in ({"x": 1}, object(), [object()], [{"score": 1}]):
        with pytest.raises(UnreadableError):
            respond(lambda _, given=nothing: given, "why", [])
    with pytest.raises(UnreadableError, match="none of"):
        respond(object(), "why", [])


def test_langchain_runnables_and_retrievers() -> None:
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    class Two(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document(page_content=f"{query} {text}", metadata={"source": text[:3]}) for text in TEXTS]

    found = respond(Two(), "noon", [])
    assert found["answer"] is None
    assert [one["url"] for one in found["passages"]] == ["The", "Tic"]
    assert respond(RunnableLambda(lambda text: AIMessage(text * 2)), "ab", [])["answer"] == "abab"
    chain = {"input": RunnablePassthrough(), "context": Two()} | RunnablePassthrough.assign(
        answer=lambda given: f"{given['input']}: {len(given['context'])}"
    )
    found = respond(chain, "noon", [])
    assert (found["answer"], texts_of(found)) == ("noon: 2", [f"noon {text}" for text in TEXTS])


def test_objects_with_the_methods_of_llamaindex_and_haystack() -> None:
    nodes = [
        SimpleNamespace(node=SimpleNamespace(text=text, metadata={"file_name": f"{n}.md"}), score=0.5)
        for n, text in enumerate(TEXTS)
    ]
    engine = SimpleNamespace(query=lambda _: SimpleNamespace(response="At noon.", source_nodes=nodes))
    found = respond(engine, "When?", [])
    assert (found["answer"], texts_of(found)) == ("At noon.", TEXTS)
    assert [(one["url"], one["score"]) for one in found["passages"]] == [("0.md", 0.5), ("1.md", 0.5)]
    assert texts_of(respond(SimpleNamespace(retrieve=lambda _: nodes), "When?", [])) == TEXTS

    class Pipeline:
        graph = SimpleNamespace(nodes={"retriever": {}, "llm": {}})

        def inputs(self) -> dict[str, dict[str, Any]]:
            return {"retriever": {"query": {}, "top_k": {}}, "builder": {"question": {}}, "llm": {"seed": {}}}

        def run(self, data: dict[str, Any], include_outputs_from: set[str]) -> dict[str, Any]:
            assert data == {"retriever": {"query": "When?"}, "builder": {"question": "When?"}}
            assert include_outputs_from == {"retriever", "llm"}
            documents = [SimpleNamespace(content=text, meta={"url": "u"}, score=1.0) for text in TEXTS]
            return {"llm": {"replies": ["At noon."]}, "retriever": {"documents": documents}}

    found = respond(Pipeline(), "When?", [])
    assert (found["answer"], texts_of(found)) == ("At noon.", TEXTS)


def test_a_call_that_does_not_return_is_left_alone() -> None:
    wait = threading.Event()
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        within(wait.wait, 0.05)
    wait.set()
    assert within(lambda: 7, 60) == 7
    with pytest.raises(ZeroDivisionError):
        within(lambda: 1 // 0, 60)
    with pytest.raises(RuntimeError, match="SystemExit"):
        within(sys.exit, 60)


def test_two_folders_may_have_modules_of_one_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "beside.py").write_text(f"NAME = '{name} '")
        (tmp_path / name / "my_rag.py").write_text(
            "import beside\n\nclass Engine:\n"
            "    def query(self, text):\n        import beside as now\n\n"
            "        assert now is beside\n        return beside.NAME + text\n\n"
            "class Outer:\n    engine = Engine()\n"
        )
    found = [load("my_rag:Outer.engine", tmp_path / name).query("x") for name in ("one", "two")]
    assert found == ["one x", "two x"]
    assert load("my_rag:Engine", tmp_path / "one").query("y") == "one y", (
        "a class is called without arguments"
    )
    assert code_digest("my_rag:x", tmp_path / "one") != code_digest("my_rag:x", tmp_path / "two")
    assert code_digest("json:loads", tmp_path) is None
    (tmp_path / "one" / "beside.py").write_text("NAME = 'changed '")
    assert load("my_rag:Engine", tmp_path / "one").query("y") == "changed y"
    (tmp_path / "one" / "json.py").write_text("X = 1")
    (tmp_path / "one" / "other.py").write_text("import json")
    with pytest.raises(ImportError, match="another one of that name is in use"):
        load("other:json", tmp_path / "one")
    assert missing_module("my_rag:any", tmp_path / "one") is None
    assert missing_module("json:loads", tmp_path) is None
    assert "no module `absent.rag`" in (missing_module("absent.rag:f", tmp_path) or "")


def test_an_export_cannot_name_code() -> None:
    for kind in ("python", "http", "openai"):
        with pytest.raises(ValueError, match=kind):
            read_generator({kind: {"call": "os:system"}})


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ({"document": "d1"}, "d1"),
        ({"url": "https://x.example/a/#top"}, "d1"),
        ({"url": "./a"}, "d1"),
        ({"url": "c.md"}, ""),  # two documents end so
        ({"document": "docs/c.md"}, "d2"),
        ({"url": "https://elsewhere.example/z"}, ""),
    ],
)
def test_a_document_is_known_by_its_id_or_the_end_of_its_url(name: dict[str, str], where: str) -> None:
    urls = {"d1": "https://x.example/a", "d2": "docs/c.md", "d3": "other/c.md"}
    documents = [
        {"doc_id": doc, "url": url, "title": None, "text": f"{doc} {TEXTS[0]} {TEXTS[1]}"}
        for doc, url in urls.items()
    ]
    (whole,) = (_given(one) for one in read_passages([{"text": "", "id": name.get("document"), **name}]))
    found = PassageAligner(documents, [whole]).align(whole)
    assert found.passage.document == where
    assert found.similarity == (1 if where else None)
    assert (found.passage.end > 0) == bool(where), "it stands for the whole text"
    part = whole.__class__(TEXTS[1], document=whole.document, url=whole.url)
    placed = PassageAligner(documents, [part]).align(part)
    assert placed.passage.document == (where or "d1"), "without a name it is looked for everywhere"
    text = {str(one["doc_id"]): str(one["text"]) for one in documents}[placed.passage.document]
    assert text[placed.passage.start : placed.passage.end] == TEXTS[1]


def test_a_number_is_no_end_of_a_url_and_a_wrong_end_is_looked_for_elsewhere() -> None:
    documents = [
        {"doc_id": "d1", "url": "https://x.example/page/1", "title": None, "text": TEXTS[0]},
        {"doc_id": "d2", "url": "https://x.example/other", "title": None, "text": TEXTS[1]},
    ]
    given = [
        Passage("", document="1"),
        Passage(TEXTS[1], document="1"),
        Passage(TEXTS[1], document="page/1"),
        Passage("Whales cross no desert here.", document="page/1"),
        Passage(TEXTS[1], url="https://x.example/page/1"),
    ]
    aligner = PassageAligner(documents, given)
    found = [aligner.align(one) for one in given]
    assert [one.passage.document for one in found] == ["", "d2", "d2", "d1", "d1"]
    assert [one.similarity for one in found] == [None, 1, 1, None, None]


def _given(one: Any) -> Any:
    return Passage(one.text, document=one.document or "", url=one.url)
