"""A fleet on one machine: measures the load that many agents put on the central services.

python -m benchmarks.fleet --hosts 200
"""
