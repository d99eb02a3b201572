"""The sources of an answer on a terminal: by its markers, and flagged where they point nowhere."""

from __future__ import annotations

import pytest

from rag_assay.evals.generation.contract import Answer, Attempt, Bin, Citation, Cut, Passage
from rag_assay.evals.pipeline.pipeline import PipelineResult
from rag_assay.evals.retrieval.query import QueryInterpretation, Trace
from rag_assay.evals.retrieval.query_runner import QueryResult
from rag_assay.evals.study.cells import Cell
from rag_assay.orchestration.terminal.question_view import show_answers
from rag_assay.warehouse.schemas import Status

PASSAGES = (
    Passage("Five pounds.", "c1", "d1", "Fees", "fees.md", "2024-05-01", ("Late books",), 10, 22),
    Passage("At noon.", "c2", "d2", None, "32019L0944.html", start=0, end=8),
)


def shown(
    capsys: pytest.CaptureFixture[str], *citations: Citation, text: str = "Five pounds.", **more: object
) -> str:
    question = {"question": "How much?", "evidence": []}
    found = QueryResult("q", Status.OK, Trace())
    answer = Answer(Status.OK, text=text, raw=text, citations=citations, **more)  # type: ignore[arg-type]
    result = PipelineResult(Cell("s", "c", "e", "r", "g"), question, found, PASSAGES, answer, 2, ())
    show_answers([result])
    return capsys.readouterr().out.split("g answers")[1]


def test_what_is_cited_is_listed_by_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    act = "https://eur-lex.europa.eu/legal-content/DE/TXT/HTML/?uri=CELEX:32019L0944"
    out = shown(
        capsys,
        Citation(2, 0, "c2", "d2", act, (), 0, 8),
        Citation(1, 0, "c1", "d1", "fees.md", ("Late books",), 10, 22),
        Citation(2, 1, "c2", "d2", act, (), 0, 8),
        Citation(7, 1),
    )
    lines = " ".join(out.split())
    assert "[1] Fees, Late books, 2024-05-01, fees.md, characters 10 to 22 [2]" in lines
    assert f"[2] {act}, characters 0 to 8 [7] points nowhere: 2 passages given" in lines


def test_what_cites_nothing_says_so_and_what_it_read(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys).splitlines()
    at = lines.index("  it cites nothing; it read:")
    assert [line.strip() for line in lines[at + 1 :]] == [
        "–  Fees, Late books, 2024-05-01, fees.md",
        "–  32019L0944.html",
    ]


def test_hostile_sources_stay_text(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "[link=https://evil.example]\x1b[31mred"
    again = (Passage("x", "c9", "d9", evil, evil, start=0, end=1),)
    out = shown(capsys, Citation(1, 0, "c9", "d9", evil, (evil,), 0, 1), text=f"{evil} [1].", passages=again)
    assert "\x1b" not in out
    assert out.count("[link=https://evil.example]") == 3


def test_what_was_understood_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    trace.include(
        (),
        (),
        [
            QueryInterpretation("follow_up", "standalone", "And [b]2023[/b]?", "Who won in 2023?"),
            QueryInterpretation("time_frame", "window", "before 2005", "../2004-12-31", "relaxed"),
            QueryInterpretation("entities", "club", "\x1b[31mKB", "SV Kohlenbach 07", "removed"),
            QueryInterpretation("keywords", "word", "won", "won"),
        ],
    )
    found = QueryResult("q", Status.OK, trace)
    question = {"question": "And 2023?", "evidence": []}
    show_answers([PipelineResult(Cell("s", "c", "e", "r", "g"), question, found, (), None, 0, ())])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    plain = " ".join(out.split())
    assert "follow_up standalone: “And [b]2023[/b]?” → Who won in 2023?" in plain
    assert "time_frame window: “before 2005” → ../2004-12-31 (dropped: it left no passage)" in plain
    assert "KB” → SV Kohlenbach 07 (taken away) keywords word: won" in plain


def test_how_an_answer_came_about_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    bins = [
        Bin("Fees.", ("c1",), Status.OK, None, "Five\n\npounds [1]."),
        *[Bin("x", ("c1", "c2"), Status.REFUSED, "it does not say", "The documents do not say.")] * 12,
    ]
    attempts = (
        Attempt("How much?", ("c1",), False, "missing: the year"),
        Attempt("How much? the year", ("c1", "c2"), True),
    )
    out = shown(capsys, bins=tuple(bins), attempts=attempts, turns_left_out=2, passages=PASSAGES)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    whole = " ".join(lines)
    assert "looked for “How much?”: 1 passage: does not suffice (missing: the year)" in whole
    assert "looked for “How much? the year”: 2 passages: suffices" in whole
    assert "bin 1 of 13, 1 passage [ok]: Five pounds [1]." in whole
    assert "bin 2 of 13, 2 passages [refused]: The documents do not say." in whole
    assert "1 further bin" in whole
    assert "2 turns of the conversation left out: too long for history_tokens" in whole
    assert "reads 2 passages" in whole


def test_an_answer_of_one_call_has_no_steps(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys)
    assert not any(word in out for word in ("looked for", "bin ", "left out"))


def test_hostile_bins_and_queries_stay_text(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "[link=https://evil.example]\x1b[31mred"
    out = shown(
        capsys,
        bins=(Bin(evil, (evil,), Status.OK, None, evil),),
        attempts=(Attempt(evil, (), None, evil),),
    )
    assert "\x1b" not in out
    assert out.count("[link=https://evil.example]") == 3


def test_what_the_model_was_not_given_whole_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, cuts=(Cut("c1", 5), Cut("c2", 0)))
    assert "1 passage shortened and 1 passage left out to fit the context" in " ".join(out.split())
    assert "to fit the context" not in shown(capsys)
