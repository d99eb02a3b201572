"""Paths, files, SQL, caches and model weights: where things lie, and nothing of retrieval."""
