"""Metrics for Prometheus, and health; loaded only if ``[monitoring]`` enables them."""
