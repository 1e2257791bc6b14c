"""Method `search`: the rate under each goal, by RFC 9971."""
