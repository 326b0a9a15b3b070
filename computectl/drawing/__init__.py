"""Trees as text and as graphs."""
