"""Query transforms: what a chain does with a question before it searches. Each file is one transform; its
prompt for `by: llm` is `prompts/KIND.txt`; `rules/` needs no model.
"""
