"""What the next period would do, without doing it."""
