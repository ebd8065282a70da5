"""Published experiments about replicas.

replication_2016   lag of MySQL 5.7 and Aurora, and what was published about Aurora
"""
