"""What fills a report: one file a workload that has a section, and those of what every run has."""
