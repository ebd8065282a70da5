"""From what was seen of servers to what is to be done, without any I/O.

members     the values: what was seen, what is wished for, steps, plans, guarantees
election    what each replica has and can still apply; who can take over
guarantee   what the loss of the source would mean now; the proof that semi-sync works
planner     failover; switchover: what both share, and a switchover's own; dry_run: the whole course of both
semisync    traps of semi-sync, by status
"""
