"""Decides whether a caller may do what a request asks for.

signature   Signature Version 4: who sent a request, and that nobody changed it
keys        key pairs of the lab and their policies, in files that root alone reads
profile     the profile `headrace` of the AWS tools
policies    IAM policy documents, read and checked
evaluation  what policies allow
authorisation  whether a caller may do what a request asks for
conditions  the operators of a policy's Condition
positions   JSON with the line and column of everything in it
"""
