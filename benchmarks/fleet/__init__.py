"""A fleet on one machine: what it asks of the centre, and what the centre pays for it.

python -m benchmarks.fleet --hosts 200
"""
