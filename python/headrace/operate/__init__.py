"""Running servers day to day, on AWS or on the lab.

snapshots    snapshots of running servers that are sure to open again
"""
