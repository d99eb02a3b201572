"""A small real study for the drill: text files, two chunkings, retrievers, quotes and a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes.openai_server import Received, Scripted, answer

PLACES = ("harbour", "ferry", "library", "bakery", "museum", "station", "market", "school")
TEXT = """The {0} opens at {1} in the morning and closes at {2} in the evening.
A visit to the {0} costs {3} pounds for adults, and children pay half of that.
The keeper of the {0} has been in office for {4} years and writes a report each spring.
In a storm the {0} stays closed, and tickets of the {0} are paid back within {5} days.
"""

STUDY = """\
study: town
sources:
  texts: {{reader: folder, path: texts}}
corpus: {{name: town, sources: [texts]}}
chunkings:
  t16: {{tokens: {{size: 16, overlap: 4}}}}
  t40: {{tokens: {{size: 40, overlap: 0}}}}
embedders:
  minilm: {{model: all-MiniLM-L6-v2, max_tokens: 256}}
retrievers:
  words: {{bm25: {{k: 5}}}}
  meaning: {{dense: {{k: 5}}}}
{more}generators:
  quote: {{extractive: {{passages: 2, max_tokens: 40}}}}
  model: {{llm: {{model: openai/scripted, api_base: "{server}", passages: 2}}}}
questions: [{{file: town.questions.yaml}}]
metrics: [ndcg@10, evidence_coverage@5, rouge_l]
"""
MORE = "  more: {hybrid: {k: 6}}\n"


def write(folder: Path, server: str) -> tuple[Path, Path]:
    """Write texts, questions, a study, and the same one with a further retriever; return both studies."""
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
    one, two = folder / "one.yaml", folder / "two.yaml"
    one.write_text(STUDY.format(server=server, more=""))
    two.write_text(STUDY.format(server=server, more=MORE))
    return one, two


def reply(received: Received) -> Scripted:
    """Answer as a model that repeats the last words of what it was asked."""
    text = str(received.body["messages"][-1]["content"])
    return answer(" ".join(text.split()[-12:]))
