"""Query transforms: what a chain does with a question before it searches.

Each file here is one transform: it rewrites a question (`follow_up`,
`keywords`), makes several of it (`multi_query`), replaces its vector (`hyde`), or limits which chunks it may
find (`time_frame`, `entities`, `filter`). How they do it stands apart: `rules/` reads questions without a
model, `by_model/` has the prompts and replies for `by: llm`, `filtering/` turns conditions into prefilters of
an index. The words that the rules know are data in `evals/word_lists/`.
"""
