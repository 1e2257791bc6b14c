"""Analysis of records: comparisons, effects of factors, limits, findings. This package reads no files and no clock."""
