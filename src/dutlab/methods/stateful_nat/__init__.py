"""How a stateful translator is measured (RFC 9693).

`phases` has both phases of a trial. `establishment` finds new connections a second, `loaded` throughput, loss and latency of known ones,
`tear_down` how fast they are deleted, `capacity` the size of the table; `suite` does all.
"""
