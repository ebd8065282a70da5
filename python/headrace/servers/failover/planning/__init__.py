"""From what was seen of servers to what is to be done, without any I/O."""
