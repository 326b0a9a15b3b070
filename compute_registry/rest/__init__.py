"""A part of the compute API over WSGI, for the tools that people already use."""
