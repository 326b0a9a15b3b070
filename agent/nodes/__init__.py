"""All roots of this service: which they are, how many at once, those that vanished."""
