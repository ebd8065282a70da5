"""Servers that follow each other: sources and replicas.

gtid        sets of transactions' global identifiers, of both flavors
dialect     the statements of replication, by flavor and version
state       what a server says of itself and of its channels
"""
