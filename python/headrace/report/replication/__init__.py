"""Replicas in words, tables and pages. Takes results; runs nothing.

predicted   lag predicted: `headrace predict --replica`
measured    lag measured: `headrace replica lag --report`
chart       its charts, on one line of time
"""
