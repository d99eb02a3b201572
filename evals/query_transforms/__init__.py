"""Query transforms: what a chain does with a question before it searches. Each file is one transform, with
the prompt of `by: llm`; `rules/` needs no model, `metadata_filters/` makes prefilters of an index.
"""
