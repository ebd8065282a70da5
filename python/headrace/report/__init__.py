"""Tables, charts and pages made from results. Nothing here runs a simulation or a plan.

words       times, sizes and limits as people write them
output      JSON, CSV and files, whole or not at all
tables      tables on stdout
html        one self-contained page
charts/     frames in, Altair charts out
simulation  a demand, its simulation, a replay: in words, as a table, a document, a page
databases   databases predicted, calibrated and compared with their runs
plan        a plan: ranked table, reasons, page;  proof  predicted and measured
benchmarks  measured runs, and the conformance of a lab's volumes;  study  a study's verdicts
results     any result as a page in a file, or as what a notebook shows
"""
