"""Drivers: what a host has, said on a provider tree."""
