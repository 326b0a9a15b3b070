"""Versions of the registry's schema, oldest first in ``versions``."""
