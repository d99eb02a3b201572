"""What a study's budgets leave of a plan: which caps its least estimate already passes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from rag_assay.evals.study.call_estimate import CallEstimate, added
from rag_assay.evals.study.sections import StudyBudget
from rag_assay.warehouse.inference.budget import Amount, Caps
from rag_assay.warehouse.inference.model_servers import LOCAL


def passed_caps(budget: StudyBudget | None, rows: Sequence[CallEstimate]) -> list[str]:
    """Return a sentence for each cap that the least of an estimate passes: what is over it is not asked.

    budget: the study's, which pays for its retrievers, generators and metrics together; the other parts have
        a `budget_usd` of their own
    """
    whose = "all that the study's budget pays for"
    of_study = _passed(whose, budget.caps, _of_study(rows)) if budget else []
    own = (_passed(row.what, Caps(row.limit_usd), Amount(row.usd.least)) for row in rows if row.usd)
    return [*of_study, *chain.from_iterable(own)]


def _of_study(rows: Sequence[CallEstimate]) -> Amount:
    """Add the least of what is paid from the study's budget; a model of this process is not."""
    paid = [row for row in rows if row.of_study and not row.model.startswith(LOCAL)]
    usd = added(row.usd for row in paid if row.usd is not None).least
    tokens = added(span for row in paid for span in (row.read, row.written)).least
    return Amount(usd, round(tokens), round(added(row.calls for row in paid).least))


def _passed(what: str, caps: Caps, least: Amount) -> list[str]:
    """Return the sentence for what costs more than its caps; a cap that is met is none that is passed."""
    passed = [cap is not None and amount > cap for cap, amount in zip(caps, least, strict=True)]
    if not any(passed):
        return []
    needed = ", ".join(Caps(*_only(passed, least)).in_words())
    allowed = ", ".join(Caps(*_only(passed, caps)).in_words())
    return [
        f"{what}: at least {needed}, and no more than {allowed} may be spent; the rest ends as over_budget"
    ]


def _only(chosen: list[bool], values: Sequence[Any]) -> list[Any]:
    return [value if is_chosen else None for is_chosen, value in zip(chosen, values, strict=True)]
