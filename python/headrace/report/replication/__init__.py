"""Replicas in words, tables and pages. Takes results; runs nothing.

predicted   lag predicted: `headrace predict --replica`
calibrated  an applier's parameters: `headrace calibrate --replica`
"""
