"""Which questions of a study are not independent of each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from rag_assay.evals.statistics.clusters import Codes, by_documents, codes, effective
from rag_assay.evals.study.sections import CLUSTERS_BY_IDS, ClustersBy


class Clustering(NamedTuple):
    """of: question id -> its cluster, absent: one of its own; effective: equal-sized clusters as good"""

    by: str
    of: Mapping[str, int]
    found: int = 0
    effective: float = 0.0

    def codes(self, questions: Sequence[str]) -> Codes | None:
        """Number the clusters of some questions; None where each is one of its own.

        >>> Clustering("ids", {"a": 0, "b": 0, "c": 1}).codes(["c", "b", "x", "a"]).tolist()
        [0, 1, 2, 1]
        """
        found = codes([self.of.get(question, question) for question in questions])
        return found if len(found) and int(found.max()) + 1 < len(found) else None


ALONE = Clustering("none", {})


def clustering(questions: pl.DataFrame, wanted: ClustersBy) -> Clustering:
    """Cluster questions (schemas.QUESTIONS): those about one document are easy or hard together."""
    if wanted.startswith(CLUSTERS_BY_IDS):
        ids = questions["question_id"].to_list()
        matches = [re.search(wanted.removeprefix(CLUSTERS_BY_IDS), name) for name in ids]
        found = codes([("match", m.group()) if m else name for name, m in zip(ids, matches, strict=True)])
        return _clustering("ids", ids, found)
    if wanted == "none":
        return ALONE
    held = [
        (name, [one["doc_id"] or one["url"] for one in evidence])
        for name, evidence in questions.select("question_id", "evidence").iter_rows()
        if evidence
    ]
    documents = [[name for name in names if name] for _, names in held]
    return _clustering("documents", [name for name, _ in held], by_documents(documents))


def _clustering(by: str, ids: Sequence[str], found: Codes) -> Clustering:
    of = dict(zip(ids, found.tolist(), strict=True))
    return Clustering(by, of, len(set(of.values())), effective(found))
