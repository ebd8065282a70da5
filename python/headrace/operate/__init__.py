"""Running servers day to day, on AWS or on the lab.

snapshots    snapshots of running servers that are sure to open again
evidence     what is known of volumes, server and host, whatever gave it
doctor       what binds, whether it is felt, and what to do
"""
