"""The files that `assay init` writes."""
