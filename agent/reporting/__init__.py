"""What is told to people and machines: reports, log lines, the status file, systemd."""
