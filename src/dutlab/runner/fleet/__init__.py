"""Carries the places of a campaign out, on this machine or on several: one process a place, a lease on its testbed, Dask to start it."""
