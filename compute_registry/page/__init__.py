"""A read-only page of the fleet for browsers."""
