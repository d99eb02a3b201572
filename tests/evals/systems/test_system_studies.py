"""Systems in study files: mistakes with their lines, selectors, replies of servers, plans."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from pydantic import TypeAdapter

from rag_assay.evals.study.cost_estimate import estimates
from rag_assay.evals.study.run_plan import plan
from rag_assay.evals.study.study_check import check_study
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_schema import study_schema
from rag_assay.evals.systems.contract import AnySystem, System
from rag_assay.evals.systems.given_passages import UnreadableError
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.inference import egress
from rag_assay.warehouse.paths import Home
from tests.fakes.tiny import Bench, write_study

SYSTEM: TypeAdapter[System] = TypeAdapter(AnySystem)
URL = "http://127.0.0.1:9/ask"
METRICS = "metrics: ["


def system(kind: str, **written: Any) -> System:
    return SYSTEM.validate_python({kind: written})


def study_with(folder: Path, *lines: str, **more: str) -> Path:
    text = "".join(f"  {line}\n" for line in lines)
    return write_study(folder, {METRICS: f"systems:\n{text}{METRICS}", **more})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"x: {{http: {{url: '{URL}', answer: answer}}}}", "'answer' is not a selector"),
        (f"x: {{http: {{url: '{URL}', body: {{q: hello}}, answer: $.a}}}}", "write {{ question }}"),
        (f"x: {{http: {{url: '{URL}', body: {{q: '{{{{ qestion }}}}'}}, answer: $.a}}}}", "`question`?"),
        ("x: {recorded: {}}", "file"),
        ("x: {http: {url: 'ftp://h/x', answer: $.a}}", "an address begins with http://"),
        ("x: {python: answer}", "write module:function"),
        ("x: {pyhton: 'a:b'}", "did you mean `python`?"),
        ("x: {openai: {model: m}}", "api_base"),
        (f"x: {{http: {{url: '{URL}', answer: $.a, headers: {{X-A: \"a\\nb\"}}}}}}", "line break"),
        (f"x: {{http: {{url: '{URL}', answer: $.a, headers: {{Host: a}}}}}}", "set by the client"),
        ("x: {python: {call: 'a:b', version: '1'}, version: '2'}", "`version` is written twice"),
        ("extractive: {python: 'a:b'}", "a system has a name of its own"),
        ("none: {python: 'a:b'}", "is kept for cells without a generator"),
    ],
)
def test_mistakes_are_told_with_their_line(line: str, message: str, tmp_path: Path) -> None:
    path = study_with(tmp_path, line)
    with pytest.raises(InputError) as raised:
        read_study(path)
    (found,) = raised.value.findings
    assert message in found
    number = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if line in text)
    assert found.startswith(f"{path}:{number}:")


def test_check_misses_code_that_is_not_there(tmp_path: Path) -> None:
    path = study_with(tmp_path / "study", "mine: {python: 'absent_app.rag:answer'}")
    with pytest.raises(InputError) as raised:
        check_study(path, Home(tmp_path / "home"))
    assert [one for one in raised.value.findings if "no module `absent_app.rag`" in one]


def test_systems_are_restricted_named_and_planned_as_cells(tmp_path: Path) -> None:
    restrict = "restrict: {mine: {sample: 2}}\n"
    path = study_with(
        tmp_path / "study", f"mine: {{http: {{url: '{URL}', answer: $.a}}}}", "code: {python: 'json:loads'}"
    )
    path.write_text(path.read_text() + restrict)
    bench = Bench(path, Home(tmp_path / "home"))
    (mine, code) = (one for one in bench.study.cells() if one.is_system)
    assert (mine.key, mine.sample, code.short) == ("tiny.-.-.-.mine", 2, "-.-.-.code")
    assert egress.opened == {"http://127.0.0.1:9"}
    rows = estimates(bench.study, plan(bench.study, bench.stages, bench.home), bench.stages, bench.home)
    asked = {row.what: (row.calls, row.usd) for row in rows}
    assert asked == {"answers of mine": ((2, 2), None), "answers of code": ((3, 3), None)}
    path.write_text(path.read_text().replace("sample: 2", "retrievers: [bm25]"))
    with pytest.raises(InputError, match="only `sample` restricts it"):
        read_study(path)


def test_a_study_without_generators_compares_systems_with_rankings(tmp_path: Path) -> None:
    path = study_with(tmp_path, "code: {python: 'json:loads'}")
    text = path.read_text()
    begin, end = text.index("generators:"), text.index("questions:")
    path.write_text(text[:begin] + text[end:])
    assert {one.generator for one in read_study(path).cells()} == {"none", "code"}


def test_limits_prices_and_secrets_change_no_identity() -> None:
    plain = system("http", url=URL, answer="$.a", headers={"Key": "secret-1"})
    more: dict[str, Any]
    for more in ({"limits": {"at_once": 2}}, {"price": {"read": 1, "written": 1}}, {"headers": {"Key": "b"}}):
        assert SYSTEM.validate_python({"http": {**_written(), **more}}).identity() == plain.identity()
    for more in ({"version": "2"}, {"answer": "$.b"}, {"body": {"x": "{{ question }}"}}, {"headers": {}}):
        assert SYSTEM.validate_python({"http": {**_written(), **more}}).identity() != plain.identity()
    assert "secret-1" not in repr(plain) + plain.model_dump_json()


def test_other_queries_and_headers_are_another_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def at(query: str, **headers: str) -> System:
        return system("http", url=f"{URL}?{query}", answer="$.a", headers=headers)

    values: dict[str, Any] = {"question": "why"}
    kinds = [at("index=a"), at("index=b"), at("index=a", Tenant="x"), at("index=a", Tenant="y")]
    assert len({one.identity() for one in kinds}) == len({str(one.request(values)) for one in kinds}) == 4
    assert at("index=a&api_key=one").identity() == at("index=a&api_key=two").identity()
    monkeypatch.setenv("TENANT", "harbour")
    path = study_with(
        tmp_path,
        f"a: {{http: {{url: '{URL}?index=a&who=${{TENANT}}', answer: $.a, headers: {{T: '${{TENANT}}'}}}}}}",
    )
    first = read_study(path).systems["a"].identity()
    monkeypatch.setenv("TENANT", "lighthouse")
    assert read_study(path).systems["a"].identity() == first
    path.write_text(path.read_text().replace("index=a", "index=b"))
    assert read_study(path).systems["a"].identity() != first


def test_code_of_two_folders_is_not_one_system(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        path = study_with(tmp_path / name, "mine: {python: 'my_rag:answer'}")
        (tmp_path / name / "my_rag.py").write_text(f"def answer(question): return '{name}'")
        mine = read_study(path).systems["mine"]
        found.append((mine.identity(), str(mine.request({"question": "why", "history": []}))))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def _written() -> dict[str, Any]:
    return {"url": URL, "answer": "$.a", "headers": {"Key": "secret-1"}}


def openai(**written: Any) -> System:
    return system("openai", api_base=URL, model="m", **written)


def message(content: str | None, more: dict[str, Any] | None = None, **reply: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **(more or {})}}], **reply}


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (message("A"), None),
        (message("A", {"context": {"citations": [{"content": "t", "url": "u"}]}}), [("t", "u")]),
        (message("A", {"annotations": [{"url_citation": {"url": "u"}}]}), [("", "u")]),
        (message("A", {"sources": ["t"]}), [("t", None)]),
        (message("A", {"sources": []}), []),
        (message("A", citations=["https://x.example/a"]), [("", "https://x.example/a")]),
        (message("A", search_results=[{"snippet": "t", "url": "u"}]), [("t", "u")]),
    ],
)
def test_sources_of_openai_servers_are_found(reply: dict[str, Any], told: list[Any] | None) -> None:
    found = openai().read(reply)
    assert found.text == "A"
    assert (None if found.passages is None else [(p.text, p.url) for p in found.passages]) == told


def test_replies_that_do_not_fit_their_selectors_say_so() -> None:
    one = system("http", url=URL, answer="$.answer", passages="$.hits[*].text", urls="$.hits[*].url")
    found = one.read({"answer": 7, "hits": [{"text": "a", "url": "u"}, {"text": None, "url": "v"}]})
    assert (found.text, [(p.text, p.url) for p in found.passages or ()]) == ("7", [("a", "u"), ("", "v")])
    with pytest.raises(UnreadableError, match="selects nothing; the reply has: reply"):
        one.read({"reply": "hello"})
    hits = system("http", url=URL, passages="$.hits[*].text")
    assert hits.read({"hits": []}).passages == hits.read({"hits": None}).passages == ()
    for wrong in ({"a": "x"}, {"hits": "x"}, {"hits": [{"body": "t"}]}):
        with pytest.raises(UnreadableError, match=r"`passages: \$\.hits\[\*\]\.text` selects nothing"):
            hits.read(wrong)
    deep = system("http", url=URL, passages="$..text")
    assert deep.read({"hits": []}).passages == ()
    with pytest.raises(UnreadableError, match="the reply has: a"):
        deep.read({"a": "x"})
    paired = system("http", url=URL, passages="$.hits[*].texts[0]", urls="$.hits[*]..url")
    found = paired.read({"hits": [{"texts": [], "url": "u"}, {"texts": ["b"]}, {"texts": ["c"], "url": "w"}]})
    assert [(p.text, p.url) for p in found.passages or ()] == [("", "u"), ("b", None), ("c", "w")]
    unequal = system("http", url=URL, passages="$.texts", urls="$.urls")
    with pytest.raises(UnreadableError, match="`passages` selects 2 and `urls` selects 1"):
        unequal.read({"texts": ["a", "b"], "urls": ["u"]})
    with pytest.raises(UnreadableError, match="no `choices`"):
        openai().read({"error": "x"})


def test_the_schema_for_editors_accepts_them_and_marks_a_wrong_key(schema: Callable[..., bool]) -> None:
    assert schema({"x": {"python": "a:b", "version": "1"}})
    assert schema({"x": {"http": {"url": URL, "answer": "$.a"}, "limits": {"at_once": 2}}})
    assert not schema({"x": {"http": {"url": URL, "anser": "$.a"}}})
    assert not schema({"x": {"http": {"url": URL}, "python": "a:b"}})


@pytest.fixture
def schema() -> Callable[..., bool]:
    whole = study_schema()
    part = {**whole["definitions"]["Study"]["properties"]["systems"], "definitions": whole["definitions"]}
    return Draft7Validator(part).is_valid
