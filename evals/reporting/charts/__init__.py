"""Marks of the report's charts: SVG and tables without scripts.

Positions are percentages, so that one drawing fits any width; colours are the page's variables (dark mode,
print); numbers stand in tables (keyboard, screen readers). Altair 6.3 was measured instead: 898 kB of script
a report, which violates the page's content security policy, and 43 ms a chart; drawn by vl-convert 110 ms and
33 kB a chart of 40 intervals with fixed colours. Ours: 2 ms and 15 kB, with its numbers.
"""
