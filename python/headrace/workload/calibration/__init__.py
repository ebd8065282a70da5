"""From measured runs to a workload in transactions.

standard    the standard benchmark a calibration begins from
observe     a run as the fit sees it: windows and their state
fit         least squares with those spreads
shape       what the physics leaves unexplained along the life of the cache
cycle       MyRocks' compaction cycle
scatter     one-second scatter, 95th percentile
calibrate   all of it, in rounds
"""

from headrace.workload.calibration.calibrate import Calibrated, calibrate, identified

__all__ = ["Calibrated", "calibrate", "identified"]
