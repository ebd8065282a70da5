"""The endpoint's processes, and the way of a request through them."""
