"""Benchmarks of this client and of Nova's (the reference); see README.rst in this directory."""
