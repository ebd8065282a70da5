"""Failover and switchover of one source and its replicas, so that no acknowledged commit is lost.

planning    from what was seen to steps: pure
cluster     which servers belong together
hosts       how each is reached, fenced, and pointed at another source
observer    looks at all at once, and tries a write
executor    does the steps; journal: what was done, and the lease
watcher     watches, and fails over once
rescue      the rest of a dead source's binary log, from its volume
rejoin      the old source as a replica
"""
