"""computectl driver check and new."""
