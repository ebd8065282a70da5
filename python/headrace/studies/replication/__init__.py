"""Published experiments about replicas."""
