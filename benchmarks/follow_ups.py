"""What a chat answers to follow-up questions: conversations of several collections, answered by quotes.

    python -m benchmarks.follow_ups FOLDER [--every-turn]

`conversations.yaml` has questions and what the right answers hold. Its documents are the demo's, which has to
have been run in the workspace (`make demo`), a German town's website and, where FOLDER has them, the
paragraphs of `xquad`. Questions are asked as on the page Chat; what was said before is what was answered.
An answer to a question that the documents answer is right or wrong, and so is a refusal.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.question_requests import QuestionRequest
from rag_assay.evals.generation.citations import without_markers
from rag_assay.evals.retrieval.index import OpenIndex
from rag_assay.evals.study.study_file import read_study
from rag_assay.evals.study.study_names import BUNDLED
from rag_assay.orchestration.driver import Driver
from rag_assay.orchestration.question_service.opened_cell import OpenedCell, open_cell
from rag_assay.orchestration.settings import prepare
from rag_assay.warehouse.conversations import Turn
from rag_assay.warehouse.paths import Home, home, project_folder
from rag_assay.warehouse.status import Status

CONVERSATIONS = Path(__file__).with_name("conversations.yaml")
CELL = "demo.articles.minilm.bilingual.extractive"
SHORT = 6  # words of the longest answer that is put before the sentence it is from
Verdict = Literal["right answer", "right refusal", "wrong answer", "wrong refusal", "no answer there"]
VERDICTS: dict[Verdict, str] = {
    "right answer": "answered right",
    "right refusal": "refused right",
    "wrong answer": "another answer",
    "wrong refusal": "refused",
    "no answer there": "answered though the documents do not say",
}


class Asked(NamedTuple):
    """A turn of a conversation, and what came of it; group: (documents, language, half)."""

    group: tuple[str, str, str]
    is_first: bool
    wanted: dict[str, Any]
    turn: Turn
    verdict: Verdict


def verdict_of(wanted: dict[str, Any], turn: Turn) -> Verdict:
    """Judge a turn by the words that its answer has to hold; a short answer put first must be of them."""
    if turn.status is not Status.OK:
        return "wrong refusal" if "holds" in wanted else "right refusal"
    if "holds" not in wanted:
        return "no answer there"
    said = _plain(without_markers(turn.answer or ""))
    first, _, rest = said.partition(". ")
    short = first if first in rest and len(first.split()) <= SHORT else ""
    stated = [
        words
        for words in map(_plain, wanted["holds"])
        if re.search(rf"(?<!\w){re.escape(words)}(?!\w)", said)
    ]
    is_right = any(short in words or words in short for words in stated)
    return "right answer" if is_right else "wrong answer"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def check_facts(conversations: Sequence[dict[str, Any]], index: OpenIndex) -> None:
    """Raise SystemExit where words that a right answer has to hold stand in no document."""
    titles, documents = (index.column(name).unique().drop_nulls() for name in ("title", "doc_id"))
    texts = (index.passage(one, 0, sys.maxsize) for one in documents)
    read = _plain("\n".join([*titles, *texts]))
    for wanted in (turn for one in conversations for turn in one["turns"]):
        if missing := [words for words in wanted.get("holds", ()) if _plain(words) not in read]:
            raise SystemExit(f"{CONVERSATIONS.name}: no document holds {missing} ({wanted['asks']})")


def opened(documents: str, data: Path, work: BuildContext) -> OpenedCell | None:
    """Open the demo's recommended pipeline on some documents, built first; None where they are missing."""
    demo = read_study(BUNDLED / "demo.yaml")
    cell = next(one for one in demo.cells() if one.key == CELL)
    if documents == "demo":
        return open_cell(demo, cell, work)
    source = {"town": project_folder() / "examples/german/site", "xquad": data / "xquad"}[documents]
    if not source.is_dir():
        return None
    folder = work.home.root / "bench" / "follow-ups" / documents
    folder.mkdir(parents=True, exist_ok=True)
    study = read_study(_written(documents, source, folder))
    stages = ["pages", "documents", "chunks", "embeddings", "indexes"]
    if not Driver(study, work.home).run(only=stages).ok:
        raise SystemExit(f"{study.path} could not be built")
    return open_cell(study, next(iter(study.cells())), work)


def _written(documents: str, source: Path, folder: Path) -> Path:
    """Write the study of some documents, with the parts of the demo's recommended pipeline."""
    demo = yaml.safe_load((BUNDLED / "demo.yaml").read_text("utf-8"))
    _, chunking, embedder, retriever, generator = CELL.split(".")
    if documents == "xquad":
        _write_paragraphs(source / "xquad.en.json.gz", folder / "paragraphs")
        source = folder / "paragraphs"
    reader = (
        {"reader": "html", "language": "de"} if documents == "town" else {"reader": "text", "language": "en"}
    )
    questions = folder / "questions.yaml"
    asked = {
        "question_set": documents,
        "questions": [
            {"id": "one", "question": "Who?", "type": "normal", "ground_truth": "The documents do not say."}
        ],
    }
    questions.write_text(yaml.safe_dump(asked), "utf-8")
    study = {
        "study": f"follow-ups-{documents}",
        "sources": {documents: {**reader, "path": str(source)}},
        "corpus": {"name": f"follow-ups-{documents}", "sources": [documents]},
        **{
            key: {one: demo[key][one]}
            for key, one in (
                ("chunkings", chunking),
                ("embedders", embedder),
                ("retrievers", retriever),
                ("generators", generator),
            )
        },
        "questions": [{"file": str(questions)}],
        "metrics": ["abstention"],
    }
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False), "utf-8")
    return path


def _write_paragraphs(file: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for article in json.loads(gzip.decompress(file.read_bytes()))["data"]:
        title = article["title"].replace("_", " ")
        for number, paragraph in enumerate(article["paragraphs"]):
            text = f"# {title}\n\n{paragraph['context'].strip()}\n"
            (folder / f"{article['title']}-{number}.md").write_text(text, "utf-8")


def converse(data: Path, where: Home) -> Iterator[Asked]:
    """Ask every question of every conversation, after what was answered before."""
    conversations = yaml.safe_load(CONVERSATIONS.read_text("utf-8"))
    for documents in dict.fromkeys(one["documents"] for one in conversations):
        with closing(BuildContext(where)) as work:
            cell = opened(documents, data, work)
            if cell is None:
                print(f"{documents}: left out, {data} does not have it")
                continue
            with cell:
                asked = [one for one in conversations if one["documents"] == documents]
                check_facts(asked, cell.pipeline.retrieval.index)
                for one in asked:
                    said: tuple[str, ...] = ()
                    for number, wanted in enumerate(one["turns"]):
                        turn = cell.answer(
                            QuestionRequest(wanted["asks"], one["language"], conversation=said)
                        )
                        said = (*said, turn.question, turn.answer or "")
                        group = (documents, one["language"], one["half"])
                        yield Asked(group, number == 0, wanted, turn, verdict_of(wanted, turn))


def show(asked: Sequence[Asked]) -> None:
    """Print a row for each group of first questions and of follow-ups."""
    print("\n| turns | number |" + "".join(f" {name} |" for name in VERDICTS.values()))
    print("|---|---|" + "---|" * len(VERDICTS))
    rows = dict.fromkeys(one.group for one in asked)
    for first in (True, False):
        for group in [*rows, None]:
            counts = Counter(
                one.verdict for one in asked if one.is_first == first and group in (None, one.group)
            )
            if not counts:
                continue
            label = ", ".join(group) if group else "all"
            kind = "first questions" if first else "follow-ups"
            numbers = "".join(f" {counts[name]} |" for name in VERDICTS)
            print(f"| {kind}: {label} | {sum(counts.values())} |{numbers}")


def show_turn(one: Asked) -> None:
    """Print a turn: question, what it was rewritten to, answer, verdict."""
    rewritten = [known.value for known in one.turn.understood if known.kind == "follow_up"]
    note = f"\n  asked as: {rewritten[0]}" if rewritten else ""
    confidence = f" ({one.turn.confidence:.2f})" if one.turn.confidence is not None else ""
    print(f"{'' if not one.is_first else chr(10)}- {one.wanted['asks']}{note}")
    print(f"  {one.turn.status}{confidence}: {' '.join((one.turn.answer or one.turn.reason or '').split())}")
    print(f"  {one.verdict}; holds {one.wanted.get('holds')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--every-turn", action="store_true", help="print all turns, not only the documentation's"
    )
    options = parser.parse_args()
    prepare()
    found = list(converse(options.data, home()))
    for one in found:
        if options.every_turn or one.group[2] == "docs":
            show_turn(one)
    show(found)
