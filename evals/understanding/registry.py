"""The steps by the names that study files use."""

from __future__ import annotations

from evals.retrieving.contract import QueryTransform
from evals.understanding.entities import Entities
from evals.understanding.filter import Filter
from evals.understanding.follow_up import FollowUp
from evals.understanding.hyde import Hyde
from evals.understanding.keywords import Keywords
from evals.understanding.multi_query import MultiQuery
from evals.understanding.time_frame import TimeFrame

QUERY_TRANSFORMS: dict[str, type[QueryTransform]] = {
    "follow_up": FollowUp,
    "time_frame": TimeFrame,
    "keywords": Keywords,
    "multi_query": MultiQuery,
    "hyde": Hyde,
    "entities": Entities,
    "filter": Filter,
}
