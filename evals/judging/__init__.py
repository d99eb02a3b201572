"""Judges: rate answers, each judgement with its reason."""
