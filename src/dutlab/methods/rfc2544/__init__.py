"""The benchmarks of RFC 2544, section 26: one file a test. `suite` runs them in order for one frame size."""
