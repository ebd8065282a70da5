"""Failover and switchover of one source and its replicas, so that no acknowledged commit is lost.

members, election, guarantee    what was seen, who has what, and what holds now
planner, switchover             from there to steps: pure
"""
