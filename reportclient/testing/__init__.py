"""Placement in memory, by the rules of a real one: for tests of what talks to Placement."""
