"""Question sets in the forms of other tools, by the name of the form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evals.gold.exporting.contract import Export, Material
from evals.gold.exporting.ragas import ragas

FORMS: Mapping[str, Callable[[Material], Export]] = {"ragas": ragas}
