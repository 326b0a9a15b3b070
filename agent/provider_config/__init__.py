"""Provider files: inventory and traits that operators add in YAML."""
