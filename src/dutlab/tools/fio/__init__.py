"""fio, as a program that is driven: its job file, the look at the drives that it may touch, and what it prints."""
