"""Judges: what says how good an answer is, each verdict with its reason."""
