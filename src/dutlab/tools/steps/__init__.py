"""The tool `steps`: commands of the user's own, and the figures in what they print."""
