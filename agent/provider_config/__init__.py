"""What operators add to providers in YAML files: read, checked, asserted beside the drivers."""
