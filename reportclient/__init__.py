"""Placement's vocabulary: the tree, the plan to change it, and the only writer."""
