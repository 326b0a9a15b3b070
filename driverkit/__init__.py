"""Tools for authors of drivers; no daemon loads them: docs/driver-kit.rst."""
