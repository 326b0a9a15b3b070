"""computectl driver check, new and port-check."""
