"""Queries to Placement and their answers as typed values.

Import the public names from ``reportclient.candidates``.
"""
