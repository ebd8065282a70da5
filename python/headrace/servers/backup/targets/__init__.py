"""Places where backups lie.

target    what a target is: names, writers, errors
folder    a folder as one
s3        a bucket behind the S3 API
opening   the target that a text names
"""
