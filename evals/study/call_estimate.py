"""What one part of a run asks of one model: calls, tokens and US dollars, from the least to the most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from rag_assay.warehouse.call_cache import CallCache
from rag_assay.warehouse.inference.chat_model import ChatModel
from rag_assay.warehouse.inference.chat_part import CallsEach
from rag_assay.warehouse.inference.prices import Price
from rag_assay.warehouse.paths import Home
from rag_assay.warehouse.schemas import Status


class CostRange(NamedTuple):
    """From so much to so much; `most` is None where nothing bounds it yet."""

    least: float
    most: float | None


@dataclass(frozen=True)
class CallEstimate:
    """What one part of a run asks of one model.

    what: what it is asked for
    calls, read, written: calls, and tokens that it reads and writes; those in the cache cost nothing
    usd: US dollars; None where the model's price is not known
    why: what bounds are missing, and what gives them; empty where nothing is missing
    of_study: whether the study's budget pays for it
    limit_usd: the most that it may cost by itself; None: no such bound
    """

    what: str
    model: str
    calls: CostRange
    read: CostRange
    written: CostRange
    usd: CostRange | None
    why: str = ""
    of_study: bool = False
    limit_usd: float | None = None


def total(rows: Iterable[CallEstimate]) -> CostRange:
    """Add the US dollars whose price is known."""
    return added(row.usd for row in rows if row.usd is not None)


def added(spans: Iterable[CostRange]) -> CostRange:
    """Add spans; where nothing bounds one of them, nothing bounds the sum."""
    known = list(spans)
    most = [span.most for span in known]
    bounded = None if None in most else sum(value for value in most if value is not None)
    return CostRange(sum(span.least for span in known), bounded)


class Cached:
    """How many good calls of a model the cache holds: so many of a plan's may cost nothing."""

    def __init__(self, home: Home) -> None:
        self._home = home

    @cached_property
    def _counts(self) -> Counter[str]:
        rows = CallCache(self._home).rows()
        return Counter(str(row["model"]) for row in rows if row["status"] == Status.OK)

    def of(self, chat: ChatModel) -> int:
        """Return how many are of a model, or of those that it falls back on."""
        return sum(self._counts[model] for model in {one.model for one in chat.ranked()})


def of_chat(
    what: str, chat: ChatModel, calls: CostRange, per_call: tuple[CostRange, CostRange], why: str = ""
) -> CallEstimate:
    """Put the estimate of calls of a chat model together, see `estimate`.

    What one call writes is bounded by the recipe where it says so. With further models to fall back on, the
    least is what the cheapest of them would cost, and the most what the dearest would.
    """
    read, written = per_call
    ranked = [
        estimate(
            what,
            chat.model,
            one.token_price(),
            calls,
            (read, CostRange(written.least, one.max_tokens or written.most)),
            why,
        )
        for one in chat.ranked()
    ]
    spans = [row.usd for row in ranked]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return replace(ranked[0], usd=None)
    most = [span.most for span in known if span.most is not None]
    bounds = CostRange(min(span.least for span in known), max(most) if len(most) == len(known) else None)
    return replace(ranked[0], usd=bounds)


def estimate(
    what: str,
    model: str,
    price: Price | None,
    calls: CostRange,
    per_call: tuple[CostRange, CostRange],
    why: str,
) -> CallEstimate:
    """Put an estimate together: ``per_call`` are the tokens that one call reads and writes."""
    read, written = (_times(calls, tokens) for tokens in per_call)
    usd = None
    if price is not None:
        most = (
            None
            if read.most is None or written.most is None
            else read.most * price.read + written.most * price.written
        )
        usd = CostRange(read.least * price.read + written.least * price.written, most)
        if price == (0.0, 0.0):
            usd = CostRange(0.0, 0.0)
    return CallEstimate(what, model, calls, read, written, usd, why)


def _times(calls: CostRange, tokens: CostRange) -> CostRange:
    most = None if calls.most is None or tokens.most is None else calls.most * tokens.most
    return CostRange(calls.least * tokens.least, most)


def bound_calls(n: int, each: CallsEach, chat: ChatModel, cached: Cached) -> CostRange:
    """Bound the calls for so many questions: any that the cache holds of the models may be one of them."""
    return CostRange(max(0, n * each.least - cached.of(chat)), n * each.most)
