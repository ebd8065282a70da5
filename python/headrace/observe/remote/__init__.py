"""Recordings that a service keeps, fetched as the documents that its own tools would write.

span         which time is asked for
prometheus   a Prometheus server: counters of node_exporter and mysqld_exporter
aws          clients of AWS, what a volume or an RDS instance is, and its metrics
"""
