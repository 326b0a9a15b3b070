"""Bare-metal nodes as Ironic lists them, for compute-agent."""
