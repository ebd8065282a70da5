"""Handlers of EC2.

volumes        create, delete, attach, detach, describe
attributes     status and attributes of volumes
modifications  ModifyVolume and the state of modifications
tags           tags of any resource, and TagSpecifications
instances      this machine as an instance; zones and regions
instance_types the catalog's facts of instance types
filters        Filters, with wildcards and tags
shown          the daemon's facts in EC2's form
permissions    the permissions of requests
"""
