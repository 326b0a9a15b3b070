"""The next period's writes, foreseen without writing."""
