"""Query transforms: what a chain does with a question before it searches.

Each file here is one transform: it rewrites a question (`follow_up`,
`keywords`), makes several of it (`multi_query`), replaces its vector (`hyde`), or limits which chunks it may
find (`time_frame`, `entities`, `filter`). Each file has the prompt and the reply for `by: llm`; `rules/`
reads questions without a model, `metadata_filters/` turns conditions into prefilters of an index. The words
that the rules know are data in `evals/word_lists/`.
"""
