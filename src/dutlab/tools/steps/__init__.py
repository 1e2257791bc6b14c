"""Tool `steps`: the user's own commands, and the figures in their output."""
