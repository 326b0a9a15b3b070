"""Queries to Placement and their answers as values: typed, checked, pure.

``reportclient.candidates`` has the names that callers want.
"""
