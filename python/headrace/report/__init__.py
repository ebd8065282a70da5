"""Tables, charts and pages made from results. Nothing here runs a simulation or a plan.

words        times, sizes and limits as people write them
output       JSON, CSV and files, whole or not at all
tables       rich tables on stdout
simulation   one run: in words, shortened, as a document
plan         a plan: ranked table, reasons
style        colours and the look of every chart
study        a study's verdicts as cells;  workload  a demand as lines
charts       frames in, Altair charts out;  study_charts  published, simulated, measured
html         one self-contained page;  pages fills it
"""
