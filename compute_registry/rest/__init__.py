"""A part of Nova's compute API over WSGI, so that existing clients work."""
