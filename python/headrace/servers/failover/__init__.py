"""Failover and switchover of a source and its replicas, so that no acknowledged commit is lost."""
