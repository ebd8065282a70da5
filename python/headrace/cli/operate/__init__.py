"""Commands about running servers and their storage."""
