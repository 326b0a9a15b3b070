"""The facts: each queries the host, and builds a part of the report."""
