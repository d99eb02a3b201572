"""A cell as a folder: written, sealed, opened elsewhere, and held against what the study measured."""
