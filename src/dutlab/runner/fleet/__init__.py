"""Work on a campaign's planned runs on one or several machines: a process for each run, a lease on its testbed, Dask to start it."""
