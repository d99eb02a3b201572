"""The page of `assay chat`: people talk to a corpus, by the cells that were measured."""
