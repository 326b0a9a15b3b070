"""A page of the fleet for people with a browser: to look at, never to change anything."""
