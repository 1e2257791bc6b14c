"""Flow table of a DUT: new flows a second (`rate`) and concurrent flows (`concurrent`). `suite` measures both."""
