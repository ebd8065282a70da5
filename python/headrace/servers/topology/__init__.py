"""Servers that follow each other: sources and replicas.

topology    replicas on the lab: created, started, their state and problems
seeding     a new replica with its source's data
accounts    the account that replicas connect with
threads     a replica's threads, ended and started without loss
ending      the end of servers that others follow
checks      rules on states: conditions, problems, warnings
explain     what durability settings cost, and what they can lose
group       MySQL's group replication
lag         how far replicas are behind
network     links between servers, with a latency of their own
"""
