"""Replicas in words, tables and pages. Takes results; runs nothing.

predicted   lag predicted: `headrace predict --replica`
calibrated  an applier's parameters: `headrace calibrate --replica`
measured    lag measured: `headrace replica lag --report`
chart       its charts, on one line of time
"""
