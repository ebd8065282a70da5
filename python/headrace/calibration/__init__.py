"""From measured runs to a workload in transactions, and how well it predicts a run.

from_runs   runs in, workload out; the standard benchmarks
runs        descriptions of runs, checked, with their measured files on one time axis
standard    the standard benchmark a calibration begins from
observe     a run as the fit sees it: windows and their state
fit         least squares with those spreads
shape       what the physics leaves unexplained along the life of the cache
cycle       MyRocks' compaction cycle
scatter     one-second scatter, 95th percentile
calibrate   all of it, in rounds
score       predictions of runs that were left out
"""
