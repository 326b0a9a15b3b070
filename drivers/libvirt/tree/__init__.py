"""How what was found is written into a provider tree."""
