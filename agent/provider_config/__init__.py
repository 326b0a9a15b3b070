"""What operators add to providers in YAML files: read, checked, laid over the drivers' answer."""
