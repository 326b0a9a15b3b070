"""compute-registry: the service records of a fleet over RPC, REST and a page."""
