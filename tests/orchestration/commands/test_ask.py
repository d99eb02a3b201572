"""The conversation of `assay ask`: by options or a file, whose mistakes say file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_assay.orchestration.commands.ask import MOST_TURNS, conversation_of
from rag_assay.warehouse.errors import InputError

SAID = ["Who won?", "Ann Lee: by a length."]


def test_turns_come_from_options_or_a_file_in_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "said.yaml").write_text("- Who won?\n- 'Ann Lee: by a length.'\n")
    (tmp_path / "said.json").write_text('["Who won?", "Ann Lee: by a length."]')
    assert conversation_of(SAID, None) == SAID
    assert conversation_of([], tmp_path / "said.yaml") == conversation_of([], tmp_path / "said.json") == SAID
    assert conversation_of([], None) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("who: won", "said.yaml: a conversation is a list of texts"),
        ("- Who won?\n- 7\n", "said.yaml:2: turn 2 is not text; put it into quotes"),
        ("- Who won?\n- {ann: lee}\n", "said.yaml:2: turn 2 is not text"),
        ("- 'Who", "said.yaml"),
        ("\n".join(["- x"] * (MOST_TURNS + 1)), f"has {MOST_TURNS + 1} turns"),
    ],
)
def test_mistakes_are_said_with_their_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "said.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        conversation_of([], path)
    assert words in str(raised.value)


def test_one_way_at_a_time_and_a_file_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not by both"):
        conversation_of(SAID, tmp_path / "said.yaml")
    with pytest.raises(InputError, match="no such file"):
        conversation_of([], tmp_path / "gone.yaml")
