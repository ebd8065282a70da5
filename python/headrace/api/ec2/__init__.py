"""Handlers of EC2.

volumes        create, modify, delete, attach, detach, describe
snapshots      described, made, shared, locked, kept in the recycle bin
tags           tags of any resource, and TagSpecifications
instances      the account, this machine as an instance, zones and regions, instance types
filters        Filters, with wildcards and tags
shown          the daemon's facts in EC2's form
permissions    the permissions of requests
"""
