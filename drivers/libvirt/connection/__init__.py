"""Connections to libvirt: sessions, events, loss and return; reading the host's files."""
