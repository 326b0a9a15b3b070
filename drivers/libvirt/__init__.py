"""The libvirt driver: documents in, providers out."""
