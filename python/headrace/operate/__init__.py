"""Running servers day to day, on AWS or on the lab.

snapshots    snapshots of running servers that are sure to open again
targets      from what a user types to its ticks
doctor       what binds, whether it is felt, and what to do
"""
