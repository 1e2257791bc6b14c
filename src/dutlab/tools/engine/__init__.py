"""Tool `dutlab-engine`: its binary, the protocol with its agents, loads, trials, and the agents' reports."""
