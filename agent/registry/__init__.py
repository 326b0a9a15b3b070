"""The registry of services: which hosts there are, which are switched off, and why."""
