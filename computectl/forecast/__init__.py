"""What the agent's next period would write, without writing it."""
