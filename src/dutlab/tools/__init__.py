"""Programs that produce numbers: a folder for each that has several files, a file for the others."""
