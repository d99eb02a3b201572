"""Prompt templates that a study names by path are checked before anything runs, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.evals.generation.llm import Llm
from rag_assay.evals.study.study_file import read_study
from rag_assay.warehouse.errors import InputError
from tests.fakes.tiny import write_study

QUOTES = "extractive: {extractive: {passages: 2, max_tokens: 40}}\n"
LLM = "llm: {llm: {model: openai/x, prompt: {file: prompts/my.j2}}}\n"
SOUND = b"{% block user %}\n{{ context }}\n{{ question }}\n{% endblock %}\n"


def with_template(folder: Path, template: bytes) -> Path:
    path = write_study(
        folder, {QUOTES: LLM + "  more: {llm: {model: openai/y, prompt: {file: prompts/my.j2}}}\n"}
    )
    (folder / "prompts").mkdir()
    (folder / "prompts" / "my.j2").write_bytes(template)
    return path


def test_a_path_starts_from_the_study_s_folder(tmp_path: Path) -> None:
    study = read_study(with_template(tmp_path / "one", SOUND))
    generator = study.generators["llm"]
    assert isinstance(generator, Llm)
    assert generator.prompt
    assert generator.prompt.file == str(tmp_path / "one" / "prompts" / "my.j2")
    moved = read_study(with_template(tmp_path / "two", SOUND)).generators["llm"]
    assert moved.identity() == generator.identity()


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (
            SOUND.replace(b"question", b"questoin"),
            ["3: unknown variable `questoin`; did you mean `question`?"],
        ),
        (SOUND + b"\xff", ["5: byte 61 is not UTF-8 (0xff); save the file as UTF-8"]),
        (
            SOUND.replace(b"question", b"who").replace(b"context", b"what"),
            ["2: unknown variable `what`", "3: unknown variable `who`"],
        ),
        (SOUND.replace(b"{% endblock %}", b""), ["3: Unexpected end of template."]),
    ],
)
def test_a_template_s_mistakes_are_told_once_with_its_lines(
    tmp_path: Path, template: bytes, told: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        read_study(with_template(tmp_path, template))
    place = tmp_path / "prompts" / "my.j2"
    assert len(caught.value.findings) == len(told)
    for found, text in zip(caught.value.findings, told, strict=True):
        assert found.startswith(f"{place}:{text}"), found


def test_they_are_told_beside_the_mistakes_of_the_study(tmp_path: Path) -> None:
    path = with_template(tmp_path, b"{{ question }}")
    path.write_text(path.read_text().replace("seed: 7", "sed: 7"))
    with pytest.raises(InputError) as caught:
        read_study(path)
    lines = [one.partition(": ")[0].rpartition("/")[2] for one in caught.value.findings]
    assert lines == ["tiny.yaml:3", "my.j2:1", "my.j2:1"]
