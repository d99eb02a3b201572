"""Paths, files, SQL, caches and models: where things are stored. It knows nothing of retrieval."""
