"""Snapshots as EC2 has them: `making`, `describing`, `keeping` (locks, recycle bin, fast snapshot
restore), `sharing` (attributes, tiers).
"""

from headrace.api.ec2.snapshots import describing, keeping, making, sharing

__all__ = ["describing", "keeping", "making", "sharing"]
