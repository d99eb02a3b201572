"""The glossary: each word once, in one sentence, and its class where the glossary says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| (?P<word>[^|`]+) \| (?P<meaning>[^|]+) \| `(?P<file>[^`]+\.py)`(?: `(?P<name>\w+)`)? \|$"
)
LINES = (REPOSITORY / "docs" / "glossary.md").read_text("utf-8").splitlines()
ROWS = [found for line in LINES if (found := ROW.match(line))]
# The words of the field that everything here is named by.
DESIGN = (
    *("source", "corpus", "page", "document", "chunking", "chunk", "embedder", "embedding", "index"),
    *("question set", "question", "ground truth", "evidence", "retriever", "ranking", "generator", "answer"),
    *("judge", "judgement", "metric", "score", "cell", "study", "replicate"),
)


def test_every_row_of_its_tables_is_read() -> None:
    heads = [line for line in LINES if line == "| word | what it is | where |"]
    lines = [line for line in LINES if line.startswith("| ") and line not in heads]
    assert heads
    assert len(lines) == len(ROWS)


def test_each_word_stands_once_and_none_of_the_field_is_missing() -> None:
    words = [row["word"] for row in ROWS]
    assert len(words) == len(set(words))
    assert set(DESIGN) <= set(words)


def test_each_word_is_where_the_glossary_says() -> None:
    missing = {row["word"]: row["file"] for row in ROWS if not (REPOSITORY / row["file"]).is_file()}
    assert missing == {}
    trees = {
        file: ast.parse((REPOSITORY / file).read_text("utf-8")) for file in {row["file"] for row in ROWS}
    }
    classes = {
        file: {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        for file, tree in trees.items()
    }
    elsewhere = {row["word"]: row["name"] for row in ROWS if row["name"] not in {None, *classes[row["file"]]}}
    assert elsewhere == {}
