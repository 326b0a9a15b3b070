"""How a report is written into a provider tree."""
