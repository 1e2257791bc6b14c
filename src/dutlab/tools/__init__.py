"""Programs that measure: one folder for each program with several files, one file for each other program."""
