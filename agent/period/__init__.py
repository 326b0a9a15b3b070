"""Periods of a root: read Placement, call the drivers, decide, write."""
