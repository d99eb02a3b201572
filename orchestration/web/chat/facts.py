"""Facts beside an answer: its source, seconds, tokens, costs, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rag_assay.evals.reporting.display import plain
from rag_assay.orchestration.web.languages import Words
from rag_assay.warehouse.conversations import StoredInterpretation, Turn
from rag_assay.warehouse.status import Status

DECLINED = frozenset({Status.REFUSED, Status.NO_CONTEXT})
ANSWERED = frozenset({Status.OK, Status.TRUNCATED})
_AS_SAID = frozenset({"date", "season"})  # entities that a person knows by the question's words
_GONE = frozenset({Status.ERROR, Status.TIMEOUT, Status.RATE_LIMITED})


def facts_html(turn: Turn, wanted: str | None, cell: str, words: Words) -> str:
    """wanted: the model that the cell asks first, None: none; cell: its name for people"""
    parts = [cell] if cell else []
    if turn.model or turn.status in ANSWERED:  # what a gate declines, nothing has quoted
        parts.append(_model(turn, wanted, words))
    if turn.seconds is not None:
        parts.append(words("seconds", n=f"{turn.seconds:.1f}"))
    if turn.model and turn.prompt_tokens is not None:
        parts.append(words("tokens", n=f"{turn.prompt_tokens + (turn.completion_tokens or 0):,}"))
    if turn.model and turn.usd is not None:
        parts.append(words("usd", n=f"{turn.usd:.4f}".rstrip("0").rstrip(".")))
    if turn.model and turn.cached:
        parts.append(words("cached"))
    spans = "".join(f"<span>{escape(plain(one))}</span>" for one in parts)
    left_out = words("left_out", n=turn.turns_left_out) if turn.turns_left_out else ""
    return f'<p class="as-facts">{spans}</p>' + (
        f'<p class="as-note">{escape(left_out)}</p>' if left_out else ""
    )


def _model(turn: Turn, wanted: str | None, words: Words) -> str:
    if turn.model is None:
        return words("quoted")
    if wanted is not None and turn.model != wanted:
        return f"{turn.model} ({words('fallback', model=wanted)})"
    return turn.model


def failure(turn: Turn, words: Words) -> tuple[str, str]:
    if turn.status is Status.OVER_BUDGET:
        sentence = words("over_budget")
    elif turn.status is Status.ERROR and not turn.cell:
        sentence = words("not_put")
    elif turn.status in _GONE:
        sentence = words("model_gone")
    elif turn.status is Status.NOT_RUN:
        sentence = words("stopped")
    else:
        sentence = words("no_answer")
    return f"{sentence} {words('kept')}", words("why", reason=plain(turn.reason or str(turn.status)))


def chip(one: StoredInterpretation, words: Words) -> str:
    """Return what was understood, in few words.

    >>> year = StoredInterpretation(kind="time_frame", text="in 2021", value="2021-01-01/2021-12-31")
    >>> chip(year, {"time_frame": "Time"}.__getitem__)
    'Time: 2021'
    """
    name = words(one.kind) if one.kind in {"follow_up", "time_frame", "entities"} else one.kind
    value = one.text if one.type in _AS_SAID else one.value
    if one.kind == "time_frame":
        value = _days(one.value, words)
    dropped = f" ({words('relaxed')})" if one.status == "relaxed" else ""
    return f"{name}: {value or one.text}{dropped}"


def _days(value: str, words: Words) -> str:
    start, end = (one.strip(".") for one in (value + "/").split("/")[:2])  # `..`: that end is open
    if start and end:
        if (start[4:], end[4:]) == ("-01-01", "-12-31"):
            return start[:4] if start[:4] == end[:4] else f"{start[:4]} – {end[:4]}"
        return start if start == end else f"{start} – {end}"
    return words("from_on", start=start) if start else words("until", end=end) if end else ""


def removed(understood: Sequence[StoredInterpretation], words: Words) -> list[str]:
    return [chip(one, words) for one in understood if one.removed]


def removed_html(understood: Sequence[StoredInterpretation], words: Words) -> str:
    gone = [f"<s>{escape(plain(one))}</s>" for one in removed(understood, words)]
    return f'<p class="as-note">{escape(words("without"))} {", ".join(gone)}</p>' if gone else ""
