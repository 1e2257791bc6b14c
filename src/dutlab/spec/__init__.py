"""What users write: the testbed and experiment files, checked whole before anything is touched."""
