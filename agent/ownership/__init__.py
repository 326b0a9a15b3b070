"""Ownership: managers, what each asserted last, and one function that settles it."""
