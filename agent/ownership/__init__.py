"""Ownership: which owner has which claim, and what Placement shall have therefore."""
