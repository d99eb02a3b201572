"""Marks of the report's charts: SVG and tables without scripts.

Positions are percentages, so that one drawing fits any width; colours are the page's variables (dark mode,
print); numbers stand in tables (keyboard, screen readers). Altair 6.3: 898 kB of script a report, which
violates the page's content security policy. Ours: 2 ms and 15 kB a chart, with its numbers.
"""
