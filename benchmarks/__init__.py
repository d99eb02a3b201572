"""Measurements, run by `make bench-*`; they print figures and judge nothing."""
