"""From measured runs to a workload in transactions, and how well it predicts a run.

from_runs       runs in, workload out; the standard benchmarks
runs            descriptions of runs, checked, with their measured files on one time axis
prior           where a calibration begins: standard benchmark, settings and counters of the run
observations    a run as the fit sees it: windows and their state
processor_time  processor time of a transaction, from vmstat or iostat
fit             least squares, held by the spreads of workload/parameters.py
popularity      what the physics leaves unexplained along the life of the cache
cycle           MyRocks' compaction cycle
scatter         one-second scatter, 95th percentile
calibrate       all of it, in rounds
replica         what a replica's own runs tell of its applier
score           predictions of runs that were left out
"""
