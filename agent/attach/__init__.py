"""Attach: children below a root that another service owns, such as nova-compute's."""
