"""Reaches machines: runs and spawns commands, carries files, collects facts. One implementation a file."""
