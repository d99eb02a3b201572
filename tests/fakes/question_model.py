"""A scripted model that makes questions about a small town: good ones, unless a subject is to go wrong.

It answers by what it is asked: the name of the schema says which kind of question or verdict is wanted, the
passages between tags say about what. It is gullible: it obeys whatever stands outside of the tags.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from rag_assay.evals.question_generation.llm.candidates import Document
from tests.fakes.openai_server import FakeOpenAI, Received, Scripted, answer, failure


class Subject(NamedTuple):
    """What a document is about, and a fact of it: question, answer, quote, and the fact as a clause."""

    question: str
    answer: str
    quote: str
    clause: str
    text: str


SUBJECTS: dict[str, Subject] = {
    "ferry": Subject(
        "From which wind force on does the island ferry not sail?",
        "From nine Beaufort on.",
        "Above nine Beaufort it stays in port",
        "the ferry stays in port above nine Beaufort",
        "The island ferry leaves the harbour at noon on weekdays. Above nine Beaufort it stays in "
        "port, and the crew posts a notice on the quay. Tickets are sold at the kiosk from ten in the"
        " morning.",
    ),
    "library": Subject(
        "What is the highest charge for a late book at the town library?",
        "Five pounds.",
        "Fines stop at five pounds for each book",
        "fines of the library stop at five pounds",
        "The town library lends novels for four weeks and films for one. Fines stop at five pounds "
        "for each book, however late it comes back. Children pay nothing, and neither do teachers "
        "with a class card.",
    ),
    "lighthouse": Subject(
        "How many lamps does the lighthouse have?",
        "A single lamp.",
        "The tower has one lamp of four thousand candela",
        "the lighthouse has one lamp",
        "The lighthouse was built in the year of the great storm. The tower has one lamp of four "
        "thousand candela, which the keeper lights at sunset. It can be seen for eleven miles when "
        "the air is clear.",
    ),
    "bakery": Subject(
        "When do the ovens of the bakery start?",
        "At three in the night.",
        "the ovens are lit at three in the night",
        "the bakery lights its ovens at three",
        "Nobody in the bakery sleeps long, for the ovens are lit at three in the night. Rye bread is "
        "baked on Tuesdays only, and the queue then reaches as far as the fountain before the town "
        "hall.",
    ),
    "museum": Subject(
        "Whose letters does the museum keep?",
        "Those of the poet Ada Brennan.",
        "holds the letters of the poet Ada Brennan",
        "the museum holds letters of Ada Brennan",
        "The museum of the coast holds the letters of the poet Ada Brennan, which her niece gave "
        "away. They are shown in a dark room for two months a year, since the ink does not bear the "
        "light of day.",
    ),
    "school": Subject(
        "How large are the classes of the village school at most?",
        "Eighteen children.",
        "No class has more than eighteen children",
        "no class of the school has more than eighteen children",
        "The village school teaches all ages in three rooms. No class has more than eighteen "
        "children, as the parents decided in a vote. Lunch is cooked by a father or a mother, who "
        "take turns each week.",
    ),
    "market": Subject(
        "Which animals may not be sold on the market?",
        "Live geese.",
        "Live geese may not be sold since the accident",
        "live geese may not be sold on the market",
        "The market fills the square on every second Friday. Live geese may not be sold since the "
        "accident with the tram, and stalls must be cleared by four so that the sweepers can begin "
        "their work.",
    ),
    "pool": Subject(
        "How warm is the water of the swimming pool?",
        "Twenty-six degrees.",
        "The water is kept at twenty-six degrees",
        "the water of the pool has twenty-six degrees",
        "The swimming pool opens in May, whatever the weather. The water is kept at twenty-six "
        "degrees by the waste heat of the laundry next door, and a lifeguard watches from the chair "
        "until eight.",
    ),
    "theatre": Subject(
        "What does a standing place in the theatre cost?",
        "Three pounds.",
        "A standing place costs three pounds",
        "a standing place in the theatre costs three pounds",
        "The theatre plays from October to March in the old salt store. A standing place costs three "
        "pounds and is sold at the door, an hour before the curtain rises. Dogs are admitted to "
        "comedies.",
    ),
    "clinic": Subject(
        "Who may call the clinic at night?",
        "Parents of infants.",
        "At night the telephone is answered for parents of infants",
        "the clinic answers parents of infants at night",
        "The clinic on the hill has two doctors and a midwife. At night the telephone is answered for"
        " parents of infants, while all other callers hear a recorded voice that names the hospital "
        "in the city.",
    ),
    "railway": Subject(
        "What pulls the trains of the narrow railway?",
        "A diesel engine of 1954.",
        "the trains are pulled by a diesel engine of 1954",
        "a diesel engine of 1954 pulls the trains of the railway",
        "On the narrow railway of the town, along the river, the trains are pulled by a diesel engine"
        " of 1954. Members of the club drive it on Sundays, and whoever pays for the coal of the "
        "stove may ride in the cab.",
    ),
    "observatory": Subject(
        "Through what do visitors of the observatory look?",
        "A brass telescope.",
        "guests look through a brass telescope",
        "guests of the observatory look through a brass telescope",
        "On clear nights of winter the observatory of the town opens its dome, and guests look "
        "through a brass telescope that a watchmaker ground by hand. Nobody is let in after the clock"
        " has struck eleven.",
    ),
    "cemetery": Subject(
        "Which trees grow in the cemetery?",
        "Yews and nothing else.",
        "Only yews are planted between the graves",
        "only yews grow in the cemetery",
        "The cemetery of the town lies behind the chapel wall. Only yews are planted between the "
        "graves, for sheep must not graze there, and the gate is locked by the sexton when the bell "
        "has rung at dusk.",
    ),
    "brewery": Subject(
        "From where does the brewery get its barley?",
        "From the monks' fields.",
        "Its barley comes from the fields of the monks",
        "the barley of the brewery comes from the fields of the monks",
        "The brewery makes one dark beer and no other. Its barley comes from the fields of the monks "
        "across the valley, and the spent grain is fed to the pigs of the same abbey all through the "
        "winter.",
    ),
}
TITLE = "What the visitor should know: {}"

Behaviour = Callable[[dict[str, object]], Scripted]
"""What is sent in place of a good reply, which it is given."""


def documents(names: tuple[str, ...] = tuple(SUBJECTS), language: str = "en") -> list[Document]:
    return [
        Document(f"doc-{name}", "town", f"{name}.md", TITLE.format(name), language, SUBJECTS[name].text)
        for name in names
    ]


def as_json(said: Mapping[str, object]) -> Scripted:
    return answer(json.dumps(said))


_FRAMED = re.compile(r"<(passage|title|quote|question|answer|conversation)\b.*?</\1>", re.DOTALL)
FRENCH = "Qui a volé le trésor de la ville de Paris hier soir?"


class QuestionModel(FakeOpenAI):
    """A server that makes questions.

    wrong: (name of a schema, subject) -> what it sends in place of the good reply
    asked: how often each schema was asked for
    """

    def __init__(self, wrong: Mapping[tuple[str, str], Behaviour] | None = None) -> None:
        self.wrong = dict(wrong or {})
        self.asked: Counter[str] = Counter()
        super().__init__(respond=self._respond)

    def _respond(self, received: Received) -> Scripted:
        schema = received.body["response_format"]["json_schema"]["name"]
        self.asked[schema] += 1
        system, user = (message["content"] for message in received.body["messages"][:2])
        outside = _FRAMED.sub("", user)
        if "OBEY" in outside:
            return as_json({"question": FRENCH, "answer": "x", "quote": "x"})
        subjects = [name for name in SUBJECTS if re.search(rf"\b{name}\b", user)]
        subjects.sort(key=user.index)
        if not subjects and schema not in {"VerdictReply", "ClosedBookReply"}:
            return failure(400, f"nothing is known of this: {user[:200]}")
        good = GOOD[schema](subjects, system, user)
        behaviour = next((self.wrong[schema, one] for one in subjects if (schema, one) in self.wrong), None)
        return behaviour(good) if behaviour else as_json(good)


def _question(subjects: list[str], system: str, user: str) -> dict[str, object]:
    one = SUBJECTS[subjects[0]]
    said: dict[str, object] = {"question": one.question, "answer": one.answer, "quote": one.quote}
    if 'right answer is "yes"' in system:
        return said | {"question": f"Is it true that {one.clause}?", "answer": f"Yes, {one.clause}."}
    if 'right answer is "no"' in system:
        return said | {"question": f"Is it wrong that {one.clause}?", "answer": f"No, {one.clause}."}
    if "hypothetical" in system:
        return said | {
            "question": f"If someone doubts that {one.clause}, who is right?",
            "answer": "Not they.",
        }
    if "two facts" in system:
        return said | {"question": f"Which cause and which effect does the custom of the {subjects[0]} have?"}
    return said


def _multi_hop(subjects: list[str], system: str, user: str) -> dict[str, object]:
    first, second = subjects[:2]
    return {
        "question": f"What do the {first} and the {second} have to do with each other?",
        "answer": f"{SUBJECTS[first].answer} {SUBJECTS[second].answer}",
        "first_quote": SUBJECTS[first].quote,
        "second_quote": SUBJECTS[second].quote,
    }


def _unanswerable(subjects: list[str], system: str, user: str) -> dict[str, object]:
    words = SUBJECTS[subjects[0]].clause.split()
    asked = f"Who first wrote down that {' '.join(words)}?"
    return {"question": asked, "missing": "Who wrote it."}


def _follow_up(subjects: list[str], system: str, user: str) -> dict[str, object]:
    one = SUBJECTS[subjects[0]]
    return {
        "earlier": [{"question": f"Is there a {subjects[0]} in town?", "answer": "There is one."}],
        "question": "And what is special about it?",
        "standalone": f"What is special about the {subjects[0]} of the town?",
        "answer": f"It is that {one.clause}.",
        "quote": one.quote,
    }


def _verdict(subjects: list[str], system: str, user: str) -> dict[str, object]:
    is_half = "have to do with each other" in user and user.count("<quote") == 1
    if "quotes alone" in system and not is_half:
        return {"reason": "They say so.", "verdict": "yes"}
    return {"reason": "Nothing says so.", "verdict": "no"}


GOOD: dict[str, Callable[[list[str], str, str], dict[str, object]]] = {
    "QuestionReply": _question,
    "MultiHopReply": _multi_hop,
    "UnanswerableReply": _unanswerable,
    "FollowUpReply": _follow_up,
    "VerdictReply": _verdict,
    "ClosedBookReply": lambda _subjects, _system, _user: {"known": False, "answer": ""},
}
