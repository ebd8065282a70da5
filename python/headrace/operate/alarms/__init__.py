"""Telling somebody: one episode of a finding, told when it is raised and when it is over.

episodes  which findings last long enough to be told, and when they are over
actions   a command or a webhook that is told
nagios    the output of a monitoring plugin
"""
