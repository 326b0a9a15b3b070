"""What commands read from Placement and the registry."""
