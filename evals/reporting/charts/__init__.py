"""The marks of the report's charts: scales, rows of bars and dots, planes of points and lines, heat maps.

Charts are SVG and tables that are written when the report is, and need no script: positions are percentages,
so that one drawing fits any width with letters of one size, colours are the page's variables, so that dark
mode and print need no second one, and numbers stand in tables, so that a keyboard and a screen reader have
them. Altair was measured for it (6.3, Vega 6.2, Vega-Lite 6.4, Vega-Embed 7.0): 898 kB of script in every
report; it does not start under the page's content security policy without an interpreter of its own, and
violates it twice with one (inline styles); 43 ms a chart to draw; nothing to see without a script. Drawn
beforehand by vl-convert it is a wheel of 33 MB, 110 ms and 33 kB for a chart of 40 intervals, whose colours
are fixed; here it is 2 ms and 15 kB, with its numbers.
"""
