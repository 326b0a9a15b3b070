"""A client for Placement: provider trees, the plan of changes, and the only writer."""
