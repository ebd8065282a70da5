"""Altair charts, made from frames and results. Nothing here reads a file or runs anything.

style        colours and the look of every chart
rows         rows of a run put together: as many as a chart or a table can show
builders     axes, step lines, shades, densities, colours with a legend
over_time    a demand and its simulation over time
runs         measured benchmarks, one or two of them
predictions  databases and lab volumes: predicted and measured
studies      published figures and ours
cost         plans: cost against what is delivered, and the bill
drawing      a chart as SVG or PNG
"""
