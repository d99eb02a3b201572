"""What is printed is text: names, reasons and sentences of hostile pages are never markup or escapes."""

from __future__ import annotations

import io
import os
import pty
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from rag_assay.evals.reporting.question_rows import QuestionRows
from rag_assay.evals.study.run_plan import CallEstimate, CallPlan, CostRange, RunPlan, StagePlan
from rag_assay.evals.study.run_studies import KnownStudy
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.orchestration.progress import Bars
from rag_assay.orchestration.run_report import StageReport, by_reason
from rag_assay.orchestration.terminal import cli_errors, plan_view, question_view, tables

HOSTILE = [
    "[/x]",
    "[bold]a[/bold]",
    "[link=https://evil.example]a[/link]",
    ":warning:",
    "\x1b[31mred",
    "\ud800",
]


@pytest.fixture(params=HOSTILE, ids=ascii)
def hostile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def shown(hostile: str) -> str:
    """What a reader sees in its place: the same characters, but no controls."""
    return hostile.replace("\x1b", "\ufffd").replace("\ud800", "?")


def test_labels_sentences_and_reasons(hostile: str, capfd: pytest.CaptureFixture[str]) -> None:
    failed = {f"{hostile}.{n}": f"{hostile} is no key" for n in range(3)}
    report = StageReport(hostile, 3, failed=failed, left_out={"a": hostile}, sentences=[hostile])
    with Bars() as bars:
        bars.begin(hostile, 1, 1)
        bars.tell(hostile, 0, 0)
        bars.tell(hostile, 1, 3)
        bars.end(report)
    said = capfd.readouterr().err
    assert said.count(shown(hostile)) >= 5
    assert "\x1b" not in said


def test_bars_on_a_terminal(hostile: str) -> None:
    leader, follower = pty.openpty()
    before, sys.stderr = sys.stderr, os.fdopen(follower, "w")
    heard: list[bytes] = []

    def hear() -> None:
        try:
            while data := os.read(leader, 65536):
                heard.append(data)
        except OSError:
            return

    listener = threading.Thread(target=hear)
    listener.start()
    try:
        with Bars() as bars:
            bars.begin("chunks", 3, 9)
            bars.tell("chunks", 1, 3)
            bars.tell(hostile, 0, 5)
            bars._begun[hostile] -= 5
            bars.tell(hostile, 1, 5)
            bars._progress.refresh()
    finally:
        sys.stderr.close()
        sys.stderr = before
        listener.join()
        os.close(leader)
    said = b"".join(heard).decode()
    assert "stage 3 of 9: chunks" in said
    assert shown(hostile) in said
    assert "\x1b[31mred" not in said


def test_plans_studies_and_questions(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [CallPlan(hostile, hostile, 1, 1, 1, 1)]
    found = RunPlan([], 0, [StagePlan("pages", 1, 0, 1, 0)], {hostile: None}, calls, [])
    span = CostRange(1, 2)
    row = CallEstimate(hostile, hostile, span, span, span, None, hostile, of_study=True)
    plan_view.show_plan(found, [row], StudyBudget(calls=0, tokens=5))
    tables.show_studies([KnownStudy(hostile, Path("/x"), None, None, hostile)])
    question = {
        "question_id": hostile,
        "question_set": "s",
        "type": "normal",
        "answerable": True,
        "conversation": [hostile],
        "question": hostile,
        "ground_truth": hostile,
        "time_from": None,
        "time_to": None,
        "evidence": [{"url": hostile, "quote": hostile, "grade": 1, "reason": hostile}],
    }
    question_view.show_question(QuestionRows(question, []))
    cli_errors.say(hostile)
    captured = capsys.readouterr()
    assert "in all: 1–2 calls, 2–4 tokens, US$ 0" in captured.out
    assert "budget of a run: 5 tokens, 0 calls" in captured.out
    assert "at least 1 calls, and no more than 0 calls" in " ".join(captured.out.split())
    assert "".join(captured.out.split()).count("".join(shown(hostile).split())) >= 12  # some are wrapped
    assert shown(hostile) in captured.err
    assert "\x1b" not in captured.out + captured.err


def test_equal_reasons_are_said_once_with_their_count() -> None:
    keys = [f"s.c.{n}" for n in range(20)]
    stage = StageReport("answers", 21, failed={key: f"answers of {key}: no key is set" for key in keys})
    stage.failed["s.c.odd"] = "answers of s.c.odd: boom"
    lines = tables.failure_lines(stage)
    assert lines == [
        "  failed, 20 of 21: answers of …: no key is set (s.c.0, s.c.1 and 18 more)",
        "  failed, 1 of 21: answers of s.c.odd: boom (s.c.odd)",
    ]
    assert len(tables.failure_lines(StageReport("x", 99, failed={str(n): f"r{n}" for n in range(99)}))) == 6


def test_a_key_that_is_a_word_of_its_reason_is_no_part_of_other_words() -> None:
    assert by_reason({"a": "a cannot"}) == {"a cannot": ["a"]}
    assert by_reason({"a": "a bad gate", "b": "b bad gate"}) == {"… bad gate": ["a", "b"]}


def test_equal_sentences_are_said_once_with_their_count(capfd: pytest.CaptureFixture[str]) -> None:
    with Bars() as bars:
        for _ in range(3):
            bars.tell("no key is set", 0, 0)
    assert capfd.readouterr().err.splitlines() == ["no key is set", "said 3 times: no key is set"]


def test_finished_stages_stay_with_their_counts(capfd: pytest.CaptureFixture[str]) -> None:
    with Bars() as bars:
        bars.begin("chunks", 4, 10)
        bars.end(StageReport("chunks", 1_234, fresh=1_230, built=4, seconds=2.04))
    line = "stage  4 of 10  chunks        4 computed · 1,230 up to date · 2.0 s"
    assert capfd.readouterr().err.splitlines() == [line]


def test_a_line_that_is_longer_than_the_pipe_is_wide_stays_one_line() -> None:
    out = io.StringIO()
    Console(file=out, width=40)
    cli_errors.console(out, width=40).print(cli_errors.text("x " * 60), soft_wrap=True)
    assert len(out.getvalue().splitlines()) == 1
