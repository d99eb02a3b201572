"""Understanding the question: one step a file, which filters, rewrites or expands it before the search."""

from evals.understanding.registry import QUERY_TRANSFORMS

__all__ = ["QUERY_TRANSFORMS"]
