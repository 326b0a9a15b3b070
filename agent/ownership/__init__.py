"""Whose is it?  Managers, what each asserted last, and one function that settles it."""
