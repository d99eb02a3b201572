"""Steps that a study asks for although they measured as a loss: what `assay check` warns of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from rag_assay.evals.query_transforms.entities import Entities
from rag_assay.evals.query_transforms.hyde import Hyde
from rag_assay.evals.query_transforms.keywords import Keywords
from rag_assay.evals.retrieval.cutoffs import Adaptive, Threshold
from rag_assay.evals.retrieval.feedback import RelevanceFeedback
from rag_assay.evals.retrieval.graph import Graph
from rag_assay.evals.retrieval.passage_order import GroupByDocument
from rag_assay.warehouse.validation_errors import Finding
from rag_assay.warehouse.yaml_positions import Place

MEASURED = "docs/retrieval-results.md"


class _Loss(NamedTuple):
    """What measured as a loss.

    applies: whether a recipe is what was measured
    words: what was lost, as a clause; nDCG@10 without the step less that with it
    """

    recipe: type[BaseModel]
    applies: Callable[[Any], bool]
    words: str


_LOSSES: Mapping[str, _Loss] = {
    "feedback": _Loss(
        RelevanceFeedback,
        lambda recipe: recipe.original < 0.85,
        "RM3 with `original: 0.5` lost 0.050 on SciFact and 0.022 on XQuAD; 0.9 lost nothing significant",
    ),
    "keywords": _Loss(
        Keywords,
        lambda recipe: recipe.by == "rules" and recipe.synonyms > 0,
        "one synonym for each keyword lost 0.027 on average, and 0.090 on CISI; `synonyms: 0` lost nothing",
    ),
    "entities": _Loss(
        Entities,
        lambda recipe: recipe.by == "rules" and recipe.keywords != "none",
        "a filter by keywords lost 0.071 on blog posts with tags; `keywords: none` lost nothing",
    ),
    "group_by_document": _Loss(
        GroupByDocument,
        lambda recipe: recipe.by == "sum",
        "sums favour long documents: 0.033 lost on blog posts, 0.055 on news; `by: best` lost nothing",
    ),
    "threshold": _Loss(
        Threshold,
        lambda recipe: recipe.of == "best" and recipe.at_least > 0.4,
        "half of the best BM25 score lost 0.019 on Cranfield; `at_least: 0.3` lost nothing",
    ),
    "graph": _Loss(
        Graph,
        lambda recipe: recipe.spread > 0.15,
        "`spread: 0.3` lost 0.005 on Cranfield behind `dense`; 0.1 lost nothing significant",
    ),
    "hyde": _Loss(
        Hyde,
        lambda recipe: recipe.by == "rules",
        "a template gained nothing on any collection (-0.0003 on average); it is a baseline for `by: llm`",
    ),
    "adaptive": _Loss(
        Adaptive,
        lambda recipe: recipe.min is not None and recipe.min < 10,
        "fewer than ten passages lost evidence: 0.102 on average with `min: 1` and `steepest`",
    ),
}


def measured_losses(data: Mapping[str, Any]) -> list[Finding]:
    """Return the retrievers' steps that measured as a loss, each where it stands.

    data: a study as its file says it; what is wrong in itself is passed over.
    """
    return list(_found(data.get("retrievers"), ("retrievers",)))


def _found(part: Any, place: Place) -> Iterator[Finding]:
    if isinstance(part, list):
        for number, one in enumerate(part):
            yield from _found(one, (*place, number))
    elif isinstance(part, dict):
        for name, one in part.items():
            # A retriever of the study may have the name of a step.
            loss = _LOSSES.get(name) if isinstance(name, str) and len(place) > 1 else None
            if loss is not None and _is_lost(loss, one):
                text = f"`{name}` measured as a loss of nDCG@10 in these settings: {loss.words} ({MEASURED})"
                yield Finding((*place, name), "measured_loss", text)
            yield from _found(one, (*place, name))


def _is_lost(loss: _Loss, written: Any) -> bool:
    try:
        return loss.applies(loss.recipe.model_validate(written or {}))
    except ValidationError:
        return False  # as in `graph: {of: …}`, a retriever; or a mistake, which is told elsewhere
