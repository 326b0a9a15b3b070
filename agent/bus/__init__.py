"""The message bus: calls to this host and to the registry, and who may make them."""
