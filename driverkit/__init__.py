"""What authors of drivers use, and no daemon loads: docs/driver-kit.rst."""
