"""Serves CloudWatch: every decision and all arithmetic are the daemon's; this package changes
names."""
