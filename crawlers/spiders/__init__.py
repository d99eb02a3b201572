"""Spiders, one family of sites a file."""
