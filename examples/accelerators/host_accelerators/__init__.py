"""Accelerators and NVMe disks of a host, for compute-agent."""
