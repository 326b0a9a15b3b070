"""Facts of the host: each queries the host, and builds a part of the report."""
