"""A small real study for the drill with rows in every stage: a judge, people, a scripted model."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tests.fakes.openai_server import Received, Scripted, answer

PLACES = ("harbour", "ferry", "library", "bakery", "museum", "station", "market", "school", "tower", "mill")
TEXT = """The {0} opens at {1} in the morning and closes at {2} in the evening.
A visit to the {0} costs {3} pounds for adults, and children pay half of that.
The keeper of the {0} has been in office for {4} years and writes a report each spring.
In a storm the {0} stays closed, and tickets of the {0} are paid back within {5} days.
"""

STUDY = """\
study: {name}
sources:
  texts: {{reader: folder, path: texts}}
corpus: {{name: town, sources: [texts]}}
chunkings:
  t16: {{tokens: {{size: 16, overlap: 4}}}}
{chunking}embedders:
  minilm: {{model: all-MiniLM-L6-v2, max_tokens: 256}}
retrievers:
  words: {{bm25: {{k: 5}}}}
{retrievers}generators:
  quote: {{extractive: {{passages: 2, max_tokens: 40}}}}
  model: {{llm: {{model: openai/scripted, api_base: "{server}", passages: 2}}}}
judges:
  sure: {{yes_no: {{model: openai/judge, api_base: "{server}", metrics: [correct]}}}}
judge_cards: {{sure: {{mutations: 2}}}}
rubrics:
  right: {{binary: {{}}}}
questions: [{{file: town.questions.yaml}}]
metrics: [ndcg@10, evidence_coverage@5, rouge_l, sure.correct, people.right]
{search}"""
CHUNKING = """\
  t40:
    tokens: {{size: 40, overlap: 0}}
    enrich: {{model: openai/writer, api_base: "{server}", summary: true}}
"""
MEANING = "  meaning: {dense: {k: 5}}\n"
MORE = "  more: {hybrid: {k: 6}}\n"
SEARCH = "search: {method: successive_halving, first: 4}\n"


class Studies(NamedTuple):
    """The study files of a drill.

    one: the study that most trials run
    two: the same with a further retriever
    race: the same by another name, with a search
    small: the same with two cells
    """

    one: Path
    two: Path
    race: Path
    small: Path


def write(folder: Path, server: str) -> Studies:
    """Write texts, questions and the studies over them."""
    (folder / "texts").mkdir(parents=True)
    questions = []
    for n, place in enumerate(PLACES):
        text = TEXT.format(place, 6 + n % 4, 17 + n % 5, 3 + 2 * n, 4 + 3 * n, 5 + n)
        (folder / "texts" / f"{place}.txt").write_text(text)
        quote = f"A visit to the {place} costs {3 + 2 * n} pounds for adults"
        questions.append(
            {
                "id": f"q{n}",
                "question": f"What do adults pay at the {place}?",
                "ground_truth": f"{3 + 2 * n} pounds.",
                "evidence": [{"url": f"{place}.txt", "quote": quote}],
            }
        )
    questions.append({"id": "none", "question": "Who is the mayor of the town?", "answerable": False})
    named = {"question_set": "town", "questions": questions}
    (folder / "town.questions.yaml").write_text(json.dumps(named))
    found = Studies(*(folder / f"{name}.yaml" for name in Studies._fields))
    chunking = CHUNKING.format(server=server)
    for path, name, retrievers, search in (
        (found.one, "town", MEANING, ""),
        (found.two, "town", MEANING + MORE, ""),
        (found.race, "race", MEANING, SEARCH),
    ):
        path.write_text(
            STUDY.format(name=name, server=server, chunking=chunking, retrievers=retrievers, search=search)
        )
    found.small.write_text(STUDY.format(name="town", server=server, chunking="", retrievers="", search=""))
    return found


class Replies:
    """What the scripted server answers: `reply`, and something else to those whom a trial has chosen.

    other: key of a home's calls -> what answers them
    """

    def __init__(self) -> None:
        self.other: dict[str, Callable[[Received], Scripted]] = {}

    def __call__(self, received: Received) -> Scripted:
        key = {name.lower(): value for name, value in received.headers.items()}.get("authorization", "")
        return self.other.get(key.removeprefix("Bearer "), reply)(received)


def reply(received: Received) -> Scripted:
    """Answer as a judge that is sure by the text alone, or a model that repeats the last words of it."""
    text = str(received.body["messages"][-1]["content"])
    if received.body["model"] == "judge":
        yes = sha256(text.encode()).digest()[0] / 300 + 0.05
        return answer(
            "Yes", tops={"Yes": yes, "No": 0.95 - yes} if yes > 0.5 else {"No": 0.95 - yes, "Yes": yes}
        )
    return answer(" ".join(text.split()[-12:]))


def score(study: Path) -> None:
    """Let two people score some answers of a study that was run, in the home of this process."""
    from rag_assay.assets.engine.stage import BuildContext
    from rag_assay.evals.pipeline.cell_items import current_items
    from rag_assay.evals.rubrics.binary import Binary
    from rag_assay.evals.study.grid import Grid
    from rag_assay.evals.study.study_file import read_study
    from rag_assay.warehouse.human_scores import HumanScores
    from rag_assay.warehouse.paths import home
    from tests.fakes.human_scores import score as score_of

    found, work = read_study(study), BuildContext(home())
    items = {
        item.item_id for _, of in current_items(Grid([found]), found, work) for item in of.items.values()
    }
    work.close()
    scores = [
        score_of(
            number,
            study=found.study,
            annotator=annotator,
            item_id=item,
            rubric="right",
            rubric_version=Binary().version,
            value=float(int(item[:1], 36) % 2),
        )
        for number, (item, annotator) in enumerate(
            (item, name) for item in sorted(items)[:24] for name in ("Anna", "Ben")
        )
    ]
    HumanScores(home()).append(scores)
