"""Runs for the public: a static site of devices and runs, the claims in it checked against raw files, and many sites made one."""
