"""Conditions on the metadata of chunks, and the prefilters of an index that they become."""
