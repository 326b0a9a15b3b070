"""Judges of the rules: each runs a driver and raises Broken with the evidence."""
