"""AWS itself, or an endpoint that answers like it, reached with what all AWS tools read."""
