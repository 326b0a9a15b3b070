"""The daemon and the operator's command."""
