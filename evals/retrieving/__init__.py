"""Retrievers: one file each. A retriever is its own recipe: its fields are what a study file says of it."""
