"""The page of `assay usage`: questions to a corpus, their answers and costs."""
