"""A scheduler's request: read from a command line, and why it has few candidates or none."""
