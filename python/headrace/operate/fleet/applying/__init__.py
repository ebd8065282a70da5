"""What is advised, carried out by tools that people know, and taken back.

changes             what becomes of which volume, and which changes are not made
scripts             patch.sh and rollback.sh, which call the AWS CLI
change_volumes.sh   what these scripts do
terraform           the same as a diff of .tf files
"""
