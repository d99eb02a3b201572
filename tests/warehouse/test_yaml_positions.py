from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from yaml._yaml import CParser

from rag_assay.warehouse import yaml_positions
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.yaml_positions import MAX_BYTES, MarkedYaml, _Loader, load


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path: Path, text: str) -> MarkedYaml:
    return load(written(tmp_path, text))


def refused(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    return caught.value.findings


TEXT = """\
# a comment
study: demo
sources:
  blog:
    start:
      - https://a.example/
      - https://b.example/
retrievers: {bm25: {k: 10}}
"""


def test_every_value_knows_its_line(tmp_path: Path) -> None:
    marked = read(tmp_path, TEXT)
    assert marked.data == {
        "study": "demo",
        "sources": {"blog": {"start": ["https://a.example/", "https://b.example/"]}},
        "retrievers": {"bm25": {"k": 10}},
    }
    assert marked.line(("study",)) == 2
    assert marked.line(("sources", "blog", "start", 1)) == 7
    assert marked.line(("retrievers", "bm25", "k")) == 8
    assert marked.at(("sources", "blog")) == f"{tmp_path / 'study.yaml'}:4"


def test_a_place_that_is_not_there_has_the_line_of_what_is_around_it(tmp_path: Path) -> None:
    marked = read(tmp_path, TEXT)
    assert marked.line(("sources", "blog", "reader")) == 4
    assert marked.line(("retrievers", "bm25", 0, "k")) == 8, "a single item that is read as a list"
    assert marked.line(("nowhere",)) == 2, "the first line with something on it"
    assert read(tmp_path, "").line(("study",)) == 1
    assert read(tmp_path, "# nothing\n").data is None


def test_every_repeated_key_is_named_with_its_line(tmp_path: Path) -> None:
    findings = refused(tmp_path, "a: 1\nb: {x: 1, x: 2}\na: 2\n")
    assert [finding.removeprefix(str(tmp_path)) for finding in findings] == [
        "/study.yaml:2: the key `x` is here a second time",
        "/study.yaml:3: the key `a` is here a second time",
    ]


def test_environment_variables_are_put_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_TEST_FOLDER", "/srv: [x]\n- y: ${ASSAY_TEST_OTHER}")
    marked = read(tmp_path, "path: ${ASSAY_TEST_FOLDER}/pdf\nprice: $5 {x} ${}\nn: 3\n")
    assert marked.data["path"] == "/srv: [x]\n- y: ${ASSAY_TEST_OTHER}/pdf", "a value is text, never YAML"
    assert marked.data["price"] == "$5 {x} ${}"
    assert marked.data["n"] == 3


def test_two_dollar_signs_keep_a_variable_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_TEST_A", "value")
    text = "a: $${ASSAY_TEST_A} and ${ASSAY_TEST_A}\nb: $${ASSAY_TEST_UNSET}\nc: $$${ASSAY_TEST_A}\n"
    marked = read(tmp_path, text)
    assert list(marked.data.values()) == [
        "${ASSAY_TEST_A} and value", "${ASSAY_TEST_UNSET}", "$${ASSAY_TEST_A}"
    ]  # fmt: skip


def test_every_variable_that_is_not_set_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_TEST_A", raising=False)
    monkeypatch.delenv("ASSAY_TEST_B", raising=False)
    findings = refused(tmp_path, "a: x\nb:\n  - ${ASSAY_TEST_A}\n  - ${ASSAY_TEST_B}\n")
    assert len(findings) == 2
    assert ":3: the environment variable ASSAY_TEST_A is not set" in findings[0]
    assert ":4: the environment variable ASSAY_TEST_B is not set" in findings[1]


def test_an_alias_bomb_is_refused_soon(tmp_path: Path) -> None:
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    begin = time.monotonic()
    (finding,) = refused(tmp_path, "a0: &a0 [x]\n" + levels)
    assert "nested too deeply or is too large" in finding
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    "text", ["a: &a [*a]\n", "a: &a {b: *a}\n", "[" * 5000, "a: " + "{b: " * 60 + "1" + "}" * 60]
)
def test_endless_and_deep_files_are_refused(tmp_path: Path, text: str) -> None:
    (finding,) = refused(tmp_path, text)
    assert "nested too deeply" in finding


def test_an_alias_is_a_second_place_of_the_same_value(tmp_path: Path) -> None:
    assert read(tmp_path, "a: &x {k: 1}\nb: *x\n").data == {"a": {"k": 1}, "b": {"k": 1}}


def test_dates_stay_text_and_keys_stay_as_written(tmp_path: Path) -> None:
    marked = read(tmp_path, "from: 2024-05-01\nat: 2024-05-01T10:00:00Z\nno: 1\n2024: x\nok: true\n")
    assert marked.data == {
        "from": "2024-05-01",
        "at": "2024-05-01T10:00:00Z",
        "no": 1,
        "2024": "x",
        "ok": True,
    }


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3),
        ("a: 1\n\tb: 2\n", 2),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2),
        ("a: 1\nb: *unknown\n", 2),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: 1\n? [x, y]\n: 2\n", 2),
    ],
)
def test_bad_yaml_is_refused_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    (finding,) = refused(tmp_path, text)
    assert finding.startswith(f"{tmp_path / 'study.yaml'}:{line}: "), finding


def test_a_tag_that_does_not_fit_its_value_is_refused(tmp_path: Path) -> None:
    assert "not valid YAML" in refused(tmp_path, "a: !!int many\n")[0]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: there is no such file"):
        load(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes("a: 1\r\nb: 2\rname: Köln\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.yaml:3: cannot be read as UTF-8 text"):
        load(tmp_path / "latin.yaml")


@pytest.mark.parametrize("character", ["\0", "\x1b", "\ufffe"])
def test_a_control_character_is_told_with_its_line(tmp_path: Path, character: str) -> None:
    found = refused(tmp_path, f"study: demo\nseed: 7{character}\n")
    assert found == (
        f"{tmp_path / 'study.yaml'}:2: not valid YAML: "
        f"the control character U+{ord(character):04X} is not allowed",
    )


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    told = {
        Path("/dev/zero"): "not a regular file",
        tmp_path / "pipe.yaml": "not a regular file",
        tmp_path: "is a folder",
        tmp_path / "circle.yaml": "cannot be read",
    }
    for path, why in told.items():
        with pytest.raises(InputError, match=why):
            load(path)


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(50_000_000_000)  # of holes: it takes no place on the disk
    with pytest.raises(InputError, match=f"larger than {MAX_BYTES // 1_000_000} MB"):
        load(path)


def test_many_nodes_are_refused_when_the_first_too_many_is_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_positions, "MAX_NODES", 3_000)
    (finding,) = refused(tmp_path, "a:\n" + "- x\n" * 9_000)
    assert "too large" in finding
    line = int(finding.split(":")[1])
    assert 2_995 < line < 3_005, "where it becomes too much, not where the file ends"


def test_thousands_of_questions_know_their_lines(tmp_path: Path) -> None:
    text = "questions:\n" + "- {id: q, quote: 'words, “other” words'}\n" * 5000
    marked = read(tmp_path, text.replace("\n", "\r\n"))
    assert marked.line(("questions", 4999, "quote")) == 5001
    assert len(marked.data["questions"]) == 5000


def test_libyaml_reads(tmp_path: Path) -> None:
    """The parser in Python takes some ten times as long: 26 s for 5 MB were measured."""
    assert issubclass(_Loader, CParser)
