"""Devices of the host, and encrypted memory."""
