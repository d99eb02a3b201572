"""Metadata and model-written texts for chunks."""
