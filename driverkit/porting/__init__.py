"""Advice on porting a Nova driver, from its source."""
