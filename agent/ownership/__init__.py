"""Ownership: which manager owns which claim, and what Placement shall have therefore."""
