"""Limits of links, slots, drives and processors, and the share of them that other work takes. Pure functions."""
