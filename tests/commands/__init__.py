"""Shell commands of agents, leased at the write."""
