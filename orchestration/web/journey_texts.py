"""German texts of the journeys and the matrix, which the report's scripts write in English.

`JOURNEY` goes to `journeyParts.words`: what is not in it stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from rag_assay.evals.reporting.texts import read_yaml

JOURNEY: Mapping[str, str] = read_yaml("texts.yaml", "rag_assay.orchestration.web")["journey"]
