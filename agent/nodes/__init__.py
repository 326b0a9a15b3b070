"""All roots of this service: their UUIDs, their periods, vanished nodes."""
