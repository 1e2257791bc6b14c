"""Access to machines: run and spawn commands, transfer files, collect facts. Each kind of host has its own file."""
