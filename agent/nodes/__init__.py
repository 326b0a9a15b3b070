"""All roots of this service: their UUIDs, their periods, nodes that vanished."""
