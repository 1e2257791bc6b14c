"""Limits of links, slots, drives and processors, and the share that other work takes of them: pure functions."""
