"""Retrievers: one file each. A retriever is a recipe: its fields are the parameters in a study file."""
