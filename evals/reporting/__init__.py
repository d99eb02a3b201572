"""A study's results for people: one self-contained HTML report and one table for the terminal."""
