"""Measures the lag of replicas by four clocks.

clocks      the age of what a replica lacks, from sampled positions: pure
watch       samples servers and reads every clock
metrics     the same for Prometheus
record      a stretch of it with processor and device, for a chart
"""
