"""An example of a package that adds parts to rag-assay: one of each kind."""
