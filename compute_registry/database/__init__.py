"""The database of compute-registry."""
