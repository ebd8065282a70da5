"""Headrace: plan, simulate and prove storage for MySQL on Amazon EBS."""

from headrace.errors import CouldNotRun, HeadraceError, InputError
from headrace.simulation import Simulation, simulate
from headrace.workload import ClosedWorkload, OpenWorkload

__all__ = ["ClosedWorkload", "CouldNotRun", "HeadraceError", "InputError", "OpenWorkload", "Simulation", "simulate"]
