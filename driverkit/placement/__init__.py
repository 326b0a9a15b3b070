"""A real Placement on this machine, in a process of its own."""
