"""The wire formats of AWS, driven by the service models."""
