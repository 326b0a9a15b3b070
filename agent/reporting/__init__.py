"""Reports for people and machines: conditions, log lines, the status file, systemd."""
