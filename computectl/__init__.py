"""computectl: one file for each group of commands."""
