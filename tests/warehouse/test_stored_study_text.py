"""What a record keeps of a study file: what was asked, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.warehouse.stored_study_text import stored_study_text
from rag_assay.warehouse.yaml_positions import load

TEXT = """\
study: town  # was run with s3cret-0ne
date: 2026-11-24
"no": [no, 1e3, "12", ~, 'a: b # c']
folder: "${TOWN}"
token_of_air: "${AIR}"
llm: &one {model: openai/x, api_base: "http://robot:pa55-word@127.0.0.1:9/v1?code=t0ken-one"}
again: *one
refers: {api_base: "http://${ROBOT}:${AIR}@127.0.0.1:9/v1", api_key: "${AIR}"}
prompt: |
  Answer with $${WORDS}.

  Say so.
alerts: {webhook: "http://127.0.0.1/hooks/s3cret-path", log: false}
"""


@pytest.fixture(autouse=True)
def _variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWN", str(tmp_path))
    monkeypatch.setenv("AIR", "not-a-path")
    monkeypatch.setenv("ROBOT", "robot")
    monkeypatch.setenv("HOUSE_PASSWORD", "swordfish-77")


def test_the_text_reads_the_same_without_alerts_comments_and_credentials(tmp_path: Path) -> None:
    stored = stored_study_text(TEXT)
    for secret in ("s3cret", "pa55-word", "t0ken-one", "not-a-path", "alerts"):
        assert secret not in stored
    expected = load(tmp_path / "x.yaml", TEXT).data
    del expected["alerts"]
    for name in ("llm", "again"):
        expected[name]["api_base"] = "http://127.0.0.1:9/v1"
    assert load(tmp_path / "x.yaml", stored).data == expected
    assert str(tmp_path) in stored, "a folder may be another one by then"
    assert "${AIR}" in stored


@pytest.mark.parametrize(
    "line",
    [
        "api_key: abc",
        "embedder: {password: [hunter2]}",
        "prompt: the key is sk-abcdefghijklmnop",
        "start: ['https://user:pass@host/page']",
        "start: ['https://host/page?access_token=abc']",
        "note: swordfish-77 opens it",
        "swordfish-77: a name",
        "api_base: 'http://robot:pa55-word@${ROBOT}/v1'",
        "unset: ${NO_SUCH_VARIABLE}",
        "torn: {",
    ],
)
def test_nothing_is_stored_where_a_secret_could_remain(line: str) -> None:
    assert stored_study_text("study: town\n")
    assert stored_study_text(f"study: town\n{line}\n") == ""
