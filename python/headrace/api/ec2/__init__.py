"""Handlers of EC2.

volumes        create, delete, attach, detach, describe
attributes     status and attributes of volumes
modifications  ModifyVolume and what became of it
tags           tags of any resource, and TagSpecifications
instances      this machine as an instance; zones and regions
instance_types what the catalog knows of instance types
filters        Filters, with wildcards and tags
shown          what the daemon says, as EC2 shows it
permissions    what policies are asked
"""
