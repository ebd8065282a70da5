"""Snapshots of a running server's volumes that are sure to open again.

freezing/   filesystems, frozen and thawed whatever happens
services    where volumes and snapshots are: the lab, or EC2
sets        the snapshots of one moment, known by their tags
take        all of it in order
restore     a set, back to a server or to volumes
warming     first touch in order of need
retention   which sets go; runs on a schedule
"""
