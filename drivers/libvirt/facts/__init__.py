"""What the host is: each thing asked, and judged."""
