"""What to try where questions are lost: a sentence for each step that loses them."""

from __future__ import annotations

from collections.abc import Mapping

from rag_assay.evals.question_sets.losses import Loss

REMEDIES: Mapping[Loss, str] = {
    Loss.CORPUS: (
        "See whether the page is crawled (limits, patterns, robots.txt) and what cleaning dropped of it; a "
        "quote that is worded otherwise in the document wants mending in the question file."
    ),
    Loss.CHUNKING: (
        "Try larger chunks, more overlap, chunks along sections, or a retriever that delivers what stands "
        "around a chunk."
    ),
    Loss.FILTER: "Loosen the filter, or let it fall back to all chunks where it leaves too few.",
    Loss.CANDIDATES: (
        "Add a retriever of another kind (words beside vectors), another embedder, or a transform of the "
        "question; raise the `k` of each retriever."
    ),
    Loss.FUSION: "Give the retriever that had it more weight, or try another fusion.",
    Loss.RERANKING: "Try without the re-ranking step, with another model, or let it see longer passages.",
    Loss.CUT: "Raise `k`, or put a re-ranking step before the cut.",
    Loss.BUDGET: "Raise the token budget, or choose smaller chunks, of which more fit.",
}
