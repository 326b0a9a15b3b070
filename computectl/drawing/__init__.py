"""Trees, candidates and fleets as text and as pictures."""
