"""Facts of the host: each is asked, and judged."""
