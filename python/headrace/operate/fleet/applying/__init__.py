"""Carries out the advised changes with tools that people know, and takes them back.

changes             what becomes of which volume, and which changes are not made
scripts             patch.sh and rollback.sh, which call the AWS CLI
change_volumes.sh   what these scripts do
terraform           the same as a diff of .tf files
"""
