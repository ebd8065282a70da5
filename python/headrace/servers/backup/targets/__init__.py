"""Where backups lie.

target   what a target is, and a folder as one
s3       a bucket behind the S3 API
"""
