"""Replicas in words, tables and pages. Takes results; runs nothing.

replicas  predicted, planned, calibrated
measured  lag measured: `headrace replica lag --report`
members   servers that follow each other
"""
