"""Simulations of a workload on a storage: demand in I/Os, databases, records replayed.

demand    one load on one storage           database  a database on a storage
replay    a record of a real device         notation  what is typed on one line
"""
