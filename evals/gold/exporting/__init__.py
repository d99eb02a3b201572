"""Question sets in the forms of other tools, by the name of the form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evals.gold.exporting.beir import beir
from evals.gold.exporting.contract import Export, Material
from evals.gold.exporting.ragas import ragas
from evals.gold.exporting.squad import squad

FORMS: Mapping[str, Callable[[Material], Export]] = {"ragas": ragas, "beir": beir, "squad": squad}
