"""The page of `assay usage`: what is asked of a corpus, how it is answered, what it costs."""
