"""One period of one root: read Placement, call the drivers, decide, write."""
