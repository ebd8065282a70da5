"""The AWS endpoint of a lab, without rights or state: every decision is the daemon's."""
