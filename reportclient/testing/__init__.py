"""A fake Placement in memory that follows the rules of a real one, for tests."""
