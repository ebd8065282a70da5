"""The network of a lab's servers: links to cut, and a relay that delays."""
