"""One period of one root: ask the drivers, decide, apply; what came of it."""
