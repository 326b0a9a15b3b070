"""Judges of the rules: each raises Broken with what it saw."""
