"""Decides whether a caller may do what a request asks for.

signature   Signature Version 4: who sent a request, and that nobody changed it
keys        key pairs of the lab and their policies, in files that root alone reads; the AWS profile
policies    IAM policy documents and their conditions, read and checked
evaluation  what policies allow, and whether a caller may do what a request asks for
"""
