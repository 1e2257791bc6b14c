"""The tool `dutlab-engine`: the binary, the conversation with its agents, loads in its words, a trial, and what its agents report."""
