"""The libvirt driver: reads libvirt's documents, writes providers."""
