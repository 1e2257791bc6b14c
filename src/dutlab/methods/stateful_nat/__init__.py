"""How a stateful translator is measured (RFC 9693): both phases of a trial (`phases`), new connections a second (`establishment`), throughput,
loss and latency of known connections (`loaded`), their deletion (`tear_down`), the size of the table (`capacity`). `suite` does all."""
