"""``computectl audit``: where Placement, the registry and the hosts disagree.  GETs only."""
