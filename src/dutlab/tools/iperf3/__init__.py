"""Tool `iperf3`: the program, its JSON, TCP tests, and datagrams."""
