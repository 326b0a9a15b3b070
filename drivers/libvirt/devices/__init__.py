"""Devices of the host, and memory encryption."""
