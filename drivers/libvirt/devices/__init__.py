"""What the host has to give away: devices, and encrypted memory."""
