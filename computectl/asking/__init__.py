"""A scheduler's question: read from a command line, and why it has no answer."""
