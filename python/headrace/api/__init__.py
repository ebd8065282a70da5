"""The AWS endpoint of a lab: EC2, CloudWatch, KMS, STS and EBS direct over HTTP on the loopback.

    models/    botocore's service models, pruned to the operations that are served
    protocol/  requests into Python values and back, by the models: every protocol of AWS
    access/    signatures, keys, policies
    server/    HTTP, and the way of a request from the socket to its handler
    handling   the request of a handler, and the parameters that it handles
    cache      the daemon's volumes and snapshots, of which it is asked for changes alone
    errors     AWS's errors, and those of the lab as AWS shapes them
    paging     tokens that survive deletes
    ec2/ cloudwatch/ kms sts ebs   the handlers

A process of its own without rights and without state: every decision is the daemon's, which it
asks over the socket.
"""
