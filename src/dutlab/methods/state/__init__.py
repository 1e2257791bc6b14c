"""Memory of a DUT for flows: how fast it takes new ones (`rate`), how many it knows at once (`concurrent`). `suite` does both."""
