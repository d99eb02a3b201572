"""Turns pages into documents: one file for each kind of page."""
