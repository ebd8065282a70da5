"""AWS itself, or an endpoint that answers like it. Credentials, region and endpoint come from where
all AWS tools find them: environment, profile, role of the instance.

client      a client with limits of time, and its errors as ours
volumes     EBS volumes in the notation of storages, and back
metrics     points of CloudWatch
instances   which instance this is; an instance cut off from its volumes
"""
