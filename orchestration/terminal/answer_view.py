"""What a pipeline made of a question, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from rag_assay.evals.generation.contract import Answer, Passage
from rag_assay.evals.pipeline.pipeline import PipelineResult
from rag_assay.evals.reporting.answers import cut_words, steps_of_answer
from rag_assay.evals.reporting.display import number, quantity, several, truncate
from rag_assay.orchestration.terminal.answer_steps import fate_words, step_lines, understood_words
from rag_assay.orchestration.terminal.cli_errors import console, text, width

HITS = 5  # passages of a retriever that are shown
PASSAGE = 160  # characters of a passage, as far as the line has room
TEXT = 2_000  # characters of the answer


def show_answers(results: Sequence[PipelineResult], advice: str | None = None) -> None:
    """Print what each retriever found, the last result's answer, and advice on what would answer better."""
    out = console(width=width())
    out.print(text(truncate(results[-1].question["question"], TEXT), "bold"))
    for result in results:
        for line in _found(result):
            out.print(line)
    for line in _answer(results[-1]):
        out.print(line)
    if advice:
        out.print(text(f"  {advice}", "dim"))


def _found(result: PipelineResult) -> Iterator[Text]:
    found, cell = result.found, result.cell
    yield text("")
    spent = f"  {quantity(found.spent.seconds, 's')}" if found.spent else ""
    yield text(f"{cell.chunking} · {cell.embedder} · {cell.retriever}{spent}", "bold")
    if found.reason:
        yield text(f"  {found.status}: {found.reason}", "red")
    if found.trace.steps:
        yield text("  " + " → ".join(f"{one.step} {len(one.rows)}" for one in found.trace.steps), "dim")
    for one in result.understood:
        yield text(f"  {understood_words(one)}", "yellow" if one.status == "relaxed" else "cyan")
    for note in found.trace.notes:
        yield text(f"  {note.kind}: {note.status}: {note.reason}", "dim")
    for rank, passage in enumerate(result.passages[:HITS], start=1):
        yield _passage(rank, passage, result.question["evidence"] or ())
    if len(result.passages) > HITS:
        yield text(f"  {several(len(result.passages), 'passage')} in all", "dim")
    for loss in result.losses:
        style = "yellow" if loss["lost_at"] else "green"
        yield text(f"  evidence {loss['evidence'] + 1}: {fate_words(loss)}", style)


def _passage(rank: int, passage: Passage, evidence: Sequence[dict[str, Any]]) -> Text:
    mark = "✓" if any(_overlaps(passage, piece) for piece in evidence) else " "
    where = passage.title or passage.url or passage.document
    quote = truncate(" ".join(passage.text.split()), PASSAGE)
    line = text(f"  {rank:>3} {mark} {number(passage.score):>7}  {truncate(where, 40)}: {quote}")
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _overlaps(passage: Passage, piece: dict[str, Any]) -> bool:
    if piece["doc_id"] != passage.document:
        return False
    if piece["start"] is None or piece["end"] is None:
        return True
    return bool(piece["start"] < passage.end and passage.start < piece["end"])


def _answer(result: PipelineResult) -> Iterator[Text]:
    answer = result.answer
    if answer is None:
        return
    yield text("")
    yield text(f"{result.cell.generator} answers", "bold")
    yield text(f"  {truncate(answer.text, TEXT) if answer.text else ''}".rstrip())
    if answer.reason:
        yield text(f"  [{answer.status}] {answer.reason}", "yellow")
    yield text(f"  {_cost(result, answer)}", "dim")
    if cut := cut_words([one.kept for one in answer.cuts]):
        yield text(f"  {cut}", "yellow")
    yield from _sources(result, answer)
    yield from step_lines(steps_of_answer(answer))


def _sources(result: PipelineResult, answer: Answer) -> Iterator[Text]:
    read = result.passages[: result.read] if answer.passages is None else answer.passages
    cited = {one.marker: one for one in answer.citations}
    if not cited and answer.text and read:
        yield text("  it cites nothing; it read:", "dim")
        for passage in reversed({one.document: one for one in reversed(read)}.values()):
            yield text(f"   –  {_source(passage)}")
    by_chunk = {one.chunk: one for one in read}
    for number_, one in sorted(cited.items()):
        if one.chunk is None:
            yield text(f"  [{number_}] points nowhere: {several(len(read), 'passage')} given", "red")
        elif one.chunk in by_chunk:
            place = f"characters {one.start} to {one.end}"
            yield text(f"  [{number_}] {_source(replace(by_chunk[one.chunk], url=one.url))}, {place}")
        else:
            yield text(f"  [{number_}] {one.url or one.document}")


def _source(passage: Passage) -> str:
    section, day = " › ".join(passage.section), (passage.date or "")[:10]
    return ", ".join(filter(None, [passage.title, section, day, passage.url])) or passage.document


def _cost(result: PipelineResult, answer: Answer) -> str:
    n_read = result.read if answer.passages is None else len(answer.passages)
    tokens = (answer.prompt_tokens, answer.completion_tokens)
    known = [
        f"reads {several(n_read, 'passage')}",
        f"{quantity(answer.seconds, 's')}" if answer.seconds is not None else None,
        f"{tokens[0]} + {tokens[1]} tokens" if None not in tokens else None,
        f"{answer.usd:.6f} US dollars" if answer.usd else None,
        "from the cache" if answer.cached else None,
    ]
    return ", ".join(fact for fact in known if fact)
