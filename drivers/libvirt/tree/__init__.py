"""Writing of a report into a provider tree."""
