"""Conversations are answered as their cell was measured, many at once: none mixed up, none lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from rag_assay.assets.engine.stage import BuildContext
from rag_assay.evals.chat.question_requests import LONGEST, QuestionError, QuestionRequest
from rag_assay.evals.export.revisions import ExpectedResult, answer_record, unlike
from rag_assay.evals.export.writer import ExportOptions, export
from rag_assay.evals.pipeline.cell_items import current_items
from rag_assay.evals.rubrics.joins import RatableItems, join_scores
from rag_assay.evals.rubrics.pairwise import PairwiseRubric
from rag_assay.evals.study.grid import Grid
from rag_assay.orchestration.question_service.opened_cell import OpenedCell, open_cell, open_folder
from rag_assay.orchestration.question_service.question_service import QuestionService
from rag_assay.orchestration.question_service.worker_pool import ServiceLimits
from rag_assay.warehouse.connection import connect
from rag_assay.warehouse.conversations import Begun, ConversationNotFoundError, Conversations, Turn
from rag_assay.warehouse.errors import InputError
from rag_assay.warehouse.human_scores import HumanScores, current_scores
from rag_assay.warehouse.schemas import Status
from tests.fakes.forking import PROGRAM
from tests.fakes.openai_server import answer, failure, hang, stream_of, streamed
from tests.fakes.shipped import N, Shipped, stored

pytestmark = pytest.mark.models
REPOSITORY = Path(__file__).parents[3]
CELLS = [("chain", "extractive"), ("hybrid", "model")]


@pytest.fixture
def desk(shipped: Shipped) -> Iterator[QuestionService]:
    found = QuestionService(shipped.bench.home)
    yield found
    found.close()


def opened(
    shipped: Shipped, work: BuildContext, retriever: str, generator: str, usd: float | None = 0.0
) -> OpenedCell:
    return open_cell(shipped.bench.study, shipped.cell(retriever, generator), work, usd)


def begun(shipped: Shipped) -> str:
    return Conversations(shipped.bench.home).begin(shipped.bench.study.study, Begun(record_id="begun"))


def turn_of(desk: QuestionService, talk: OpenedCell, conversation: str, question: str) -> Turn:
    (found,) = desk.ask(talk.study, conversation, QuestionRequest(question), [talk]).turns()
    return found


def differs(opened: OpenedCell, expected: ExpectedResult, *, searches: bool) -> str | None:
    """What is found and answered now that is another thing than what was measured."""
    row = expected.question
    said = {name: row[name] for name in ("question", "language", "asked_at")}
    asking = QuestionRequest(**said, conversation=tuple(row["conversation"] or ()))
    names = ("chunk_id", "start", "end", "score")
    turn = opened.answer(asking)
    found = opened.search(asking).found.hits if searches else turn.passages
    hits = tuple({name: getattr(one, name) for name in names} for one in found)
    if not searches:
        expected = replace(expected, passages=expected.passages[: len(hits)])
    assert turn.passages[0].text
    assert any(one.evidence for one in turn.passages) or turn.model or turn.status is Status.REFUSED
    return unlike(expected, ExpectedResult(row, "ok", hits, answer_record(turn.model_dump(mode="json"))))


@pytest.mark.parametrize(("retriever", "generator"), CELLS)
def test_fifty_questions_are_answered_as_duckdb_has_them(
    shipped: Shipped, work: BuildContext, tmp_path: Path, retriever: str, generator: str
) -> None:
    study, cell = shipped.bench.study, shipped.cell(retriever, generator)
    expected = stored(shipped.bench, cell)
    assert len(expected) == N
    assert sum(bool(one.question["conversation"]) for one in expected) == N // 2
    export(study, cell, tmp_path / "out", work, ExportOptions(questions=0))
    before = len(shipped.server.requests)
    for opened in (
        open_cell(study, cell, work, 0.0, interactive=False),
        open_folder(tmp_path / "out", work, 0.0, interactive=False),
    ):
        with opened:
            found = [differs(opened, one, searches=at % 5 == 0) for at, one in enumerate(expected)]
            assert found == [None] * N
    with open_cell(study, cell, work, 0.0) as opened:  # as a person asks
        alone = [one for one in expected if not one.question["conversation"]][:5]
        assert [differs(opened, one, searches=True) for one in alone] == [None] * 5
    assert len(shipped.server.requests) == before, "equal calls are in the cache, and cost nothing"


def test_what_goes_on_from_a_question_is_understood_by_what_was_said_before(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "hybrid", "model", None)  # a cell that was measured without `follow_up`
    name = begun(shipped)
    turn_of(desk, talk, name, "When does the boat 11 leave its pier?")
    follow_up = turn_of(desk, talk, name, "And what does it carry?")
    assert "The boat 11 " in follow_up.passages[0].text
    assert follow_up.number == 2
    (understood,) = follow_up.understood
    assert (understood.kind, understood.text) == ("follow_up", "And what does it carry?")
    assert "11" in understood.value
    (other,) = desk.ask(
        talk.study,
        name,
        QuestionRequest("And what does it carry?", without=frozenset([understood.removal])),
        [talk],
    ).turns()
    assert "The boat 11 " not in other.passages[0].text
    assert [one.removed for one in other.understood] == [True]
    prompt = shipped.server.requests[-1].body["messages"][-1]["content"]
    assert "When does the boat 11 leave its pier?" in prompt
    assert "It leaves soon." in prompt, "markers of an earlier answer name other passages, and are left out"
    before = len(shipped.server.requests)
    thanks = turn_of(desk, talk, name, "Vielen Dank!")
    assert (thanks.status, thanks.answer) == (Status.OK, "Fragen Sie etwas zu den Dokumenten.")
    assert (thanks.passages, thanks.understood, len(shipped.server.requests)) == ((), (), before)
    again = turn_of(desk, talk, name, "And what does it carry?")
    assert "The boat 11 " in again.passages[0].text, "thanks are nothing to go on from"
    alone = turn_of(desk, talk, begun(shipped), "And what does it carry?")
    assert "The boat 11 " not in alone.passages[0].text


def test_many_conversations_at_once_are_neither_mixed_up_nor_lost(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "hybrid", "model", None)
    questions = ("Is there a boat {}?", "At which pier, then?", "<b>Since</b> when? [1] </passages>")
    names = {begun(shipped): boat for boat in range(1, 9)}

    def converse(name: str) -> None:
        for question in questions:
            turn_of(desk, talk, name, question.format(names[name]))

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(converse, names))
    for name, boat in names.items():
        there = desk.conversation(talk.study, name)
        assert there is not None
        assert [one.question for one in there.turns] == [one.format(boat) for one in questions]
        assert [one.number for one in there.turns] == [1, 2, 3]
        assert {one.status for one in there.turns} == {Status.OK}
        assert all(f"The boat {boat} leaves" in one.passages[0].text for one in there.turns[:2])
        assert not there.unanswered
    desk.close()
    with connect(shipped.bench.home.database) as connection:
        stored = connection.execute(
            "SELECT conversation_id, count(*), max(number) FROM chat_turns "
            "WHERE list_contains(?, conversation_id) GROUP BY ALL",
            [list(names)],
        ).fetchall()
    assert {row[1:] for row in stored} == {(3, 3)}
    assert {row[0] for row in stored} == set(names)


def test_two_tabs_on_one_conversation_ask_one_after_the_other(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "hybrid", "model", None)
    name = begun(shipped)
    shipped.server.add(replace(answer("The first answer [1]."), delay=0.3), answer("The second [1]."))
    waiting = [
        desk.ask(talk.study, name, QuestionRequest(text), [talk])
        for text in ("Which boat is blue?", "Which one is red?")
    ]
    first, second = (one.turns()[0] for one in waiting)
    assert (first.number, first.answer) == (1, "The first answer [1].")
    assert (second.number, second.answer) == (2, "The second [1].")
    assert "The first answer." in shipped.server.requests[-1].body["messages"][-1]["content"]


def test_what_is_no_question_is_refused_and_not_kept(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "chain", "extractive")
    name = begun(shipped)
    for text, why in (
        ("", "empty"),
        (" \n\x00 ", "empty"),
        ("a" * (LONGEST + 1), "8,001"),
        ("a " * 500_000, "999,999"),
    ):
        with pytest.raises(QuestionError, match=why):
            desk.ask(talk.study, name, QuestionRequest(text), [talk])
    there = desk.conversation(talk.study, name)
    assert there is not None
    assert (there.turns, there.unanswered) == ((), ())
    longest = turn_of(desk, talk, name, "boat " * (LONGEST // 5))
    assert (longest.status, longest.answer) == (Status.ERROR, None), "its embedder reads 256 words"
    assert longest.reason
    assert "tokens" in longest.reason
    for wrong in (
        QuestionRequest("When?", language="german"),
        QuestionRequest("When?", asked_at="yesterday"),
    ):
        with pytest.raises(QuestionError):
            desk.ask(talk.study, name, wrong, [talk])


def test_what_fails_is_a_turn_with_a_sentence(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "hybrid", "model", None)
    name = begun(shipped)
    shipped.server.add(failure(401, "no such key"), hang())
    refused = turn_of(desk, talk, name, "Who repairs the boats?")
    assert refused.status is Status.ERROR
    assert "no such key" in (refused.reason or "")
    hasty = QuestionService(shipped.bench.home, ServiceLimits(timeout=1))
    with closing(BuildContext(shipped.bench.home)) as other:
        poor, patient = (opened(shipped, other, "hybrid", "model", usd) for usd in (0.0, None))
        (broke,) = hasty.ask(poor.study, name, QuestionRequest("Who sells the boats?"), [poor]).turns()
        (late,) = hasty.ask(patient.study, name, QuestionRequest("Who paints the boats?"), [patient]).turns()
        hasty.close(0)
    assert broke.status is Status.OVER_BUDGET
    assert (late.status, late.reason, late.answer) == (Status.TIMEOUT, "there was no answer within 1 s", None)
    there = desk.conversation(talk.study, name)
    assert there is not None
    assert [one.status for one in there.turns] == [Status.ERROR, Status.OVER_BUDGET, Status.TIMEOUT]
    assert [one.number for one in there.turns] == [1, 2, 3]


def test_an_answer_that_is_stopped_or_breaks_off_keeps_what_had_come(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "hybrid", "model", None)
    name = begun(shipped)
    whole = answer("It leaves at noon [1]. It carries wool and salt and bricks to the island [2].")
    shipped.server.add(streamed(whole, pause=0.4))
    waiting = desk.ask(talk.study, name, QuestionRequest("Which boat has a whistle?"), [talk])
    while not (shown := waiting.sides[0].draft if waiting.sides else ""):
        assert not waiting.is_over
        time.sleep(0.05)
    waiting.stop()
    (stopped,) = waiting.turns()
    assert (stopped.status, stopped.answer) == (Status.NOT_RUN, None)
    assert stopped.reason == "the answer was stopped before it was there"
    assert (stopped.partial or "").startswith(shown)
    parts = streamed(whole).pieces[:4]
    shipped.server.add(*[replace(stream_of(*parts), drops=False) for _ in range(3)])
    broken = turn_of(desk, talk, name, "Which boat has a bell?")
    assert broken.status not in {Status.OK, Status.REFUSED}
    assert broken.reason
    assert broken.partial
    assert turn_of(desk, talk, name, "Which boat has a horn?").status is Status.OK


def test_a_thumb_and_a_comment_keep_each_other(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "chain", "extractive")
    name = begun(shipped)
    turn = turn_of(desk, talk, name, "When does the boat 1 leave its pier?").record_id
    for thumbs, comment, expected in (
        (-1, None, (-1, "")),
        (None, " late ", (-1, "late")),
        (1, None, (1, "late")),
        (None, "", (1, "")),
        (0, None, (0, "")),
    ):
        desk.feedback(talk.study, name, turn, thumbs, comment)
        found = desk.conversation(talk.study, name)
        assert found is not None
        said = found.feedback[turn]
        assert (said.thumbs, said.comment) == expected


def test_a_deleted_conversation_stays_deleted(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "hybrid", "model", None)
    name = begun(shipped)
    first = turn_of(desk, talk, name, "When does the boat 1 leave its pier?")
    shipped.server.add(replace(answer("Too late [1]."), delay=0.5))
    waiting = desk.ask(talk.study, name, QuestionRequest("Where is the boat 77?"), [talk])
    assert desk.delete(talk.study, name)
    with pytest.raises(ConversationNotFoundError):
        waiting.turns()
    with pytest.raises(ConversationNotFoundError):
        desk.ask(talk.study, name, QuestionRequest("Where is the boat 78?"), [talk])
    with pytest.raises(ConversationNotFoundError):
        desk.feedback(talk.study, name, first.record_id, 1)
    assert desk.conversation(talk.study, name) is None
    assert not desk.delete(talk.study, name)


def test_whoever_was_killed_in_mid_answer_has_lost_no_question(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    talk = opened(shipped, work, "chain", "extractive")
    name = begun(shipped)
    script = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from rag_assay.warehouse.conversations import QuestionAsked, AnswerSlot\n"
        "from rag_assay.warehouse.conversations import Conversations\n"
        "from rag_assay.warehouse.paths import Home\n"
        "from rag_assay.warehouse.processes import this_process\n"
        f"home = Home(Path({str(shipped.bench.home.root)!r}))\n"
        "asked = QuestionAsked(record_id='k', question='Who was killed?', process=this_process(home),\n"
        f"    places=(AnswerSlot(turn='k-a', cell={talk.cell.key!r}),))\n"
        f"Conversations(home).append({talk.study!r}, {name!r}, [asked])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-m", PROGRAM, script], check=False, cwd=REPOSITORY)
    assert ended.returncode == -signal.SIGKILL
    there = desk.conversation(talk.study, name)
    assert there is not None
    (lost,) = there.turns
    assert (lost.number, lost.question, lost.status) == (1, "Who was killed?", Status.NOT_RUN)
    assert lost.reason == "the program ended before the answer was there; ask again"
    assert turn_of(desk, talk, name, "When does the boat 1 leave its pier?").number == 2


def test_which_of_two_cells_is_better_counts_as_a_score_of_a_person(
    shipped: Shipped, work: BuildContext, desk: QuestionService
) -> None:
    ours, theirs = (
        opened(shipped, work, "chain", "extractive"),
        opened(shipped, work, "hybrid", "model", None),
    )
    short = theirs.cell.key.removeprefix("tiny.")
    duel = PairwiseRubric.model_validate({"against": short})
    study = shipped.bench.study.model_copy(update={"rubrics": {"duel": duel}})
    wanted = list[float]()
    for number, preferred in enumerate(("a", "b", "tie", "a", "a", "b"), 1):
        name = desk.begin_conversation(study.study, f"Person {number}")
        asking = QuestionRequest(
            "when does the boat 3 leave its pier?"
        )  # the study's own question, in other letters
        a, b = desk.ask(study.study, name, asking, [ours, theirs]).turns()
        assert (a.side, b.side, a.number, b.number) == ("a", "b", 1, 1)
        assert {a.cell, b.cell} == {ours.cell.key, theirs.cell.key}
        desk.vote(study, name, 1, "tie", ours.knows)  # and then changes their mind
        desk.vote(study, name, 1, preferred, ours.knows)
        there = desk.conversation(study.study, name)
        assert there is not None
        assert there.votes[1].preferred == preferred
        own = a if a.cell == ours.cell.key else b
        wanted.append(0.5 if preferred == "tie" else float(preferred == own.side))
    rows = [row for row in current_scores(HumanScores(work.home).rows("tiny")) if row["place"] == "chat"]
    assert [row["value"] for row in sorted(rows, key=lambda row: row["annotator"])] == wanted
    found = dict(current_items(Grid([study]), study, work, short))[ours.cell]
    places = RatableItems({question: item.item_id for question, item in found.items.items()})
    result = join_scores(study.rubrics, {"duel": {ours.cell.key: places}}, rows, {})
    counted = {row["question_id"]: row for row in result.rows if row["annotators"]}
    assert list(counted) == [a.question_id]
    assert counted[a.question_id or ""]["value"] == sum(wanted) / len(wanted)
    name = desk.begin_conversation(study.study)
    turn_of(desk, ours, name, "Who is there?")
    with pytest.raises(InputError, match="no two answers"):
        desk.vote(study, name, 1, "a", ours.knows)
