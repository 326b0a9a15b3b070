"""Reading from Placement and the registry for commands."""
