"""``computectl watch``: a live screen of this host, or of all hosts."""
