"""Method `search`: the highest rate that meets each goal (RFC 9971)."""
