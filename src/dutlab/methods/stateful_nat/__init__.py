"""Measurements of a stateful translator (RFC 9693).

`phases` has both phases of a trial. `establishment` finds the rate of new connections; `loaded` throughput, loss and latency of known ones;
`tear_down` the rate of deletion; `capacity` the size of the table. `suite` does all.
"""
