"""Numbers for Prometheus, and health: loaded only where ``[monitoring]`` switches them on."""
