"""A period of one root: ask the drivers, decide, apply, report."""
