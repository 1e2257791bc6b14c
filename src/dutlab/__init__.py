"""dutlab measures devices under test; see ARCHITECTURE.md for the map of this package."""
