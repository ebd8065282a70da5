"""CloudWatch: every decision and all arithmetic are the daemon's; here, names are changed."""
