"""Reads of commands from Placement and the registry."""
