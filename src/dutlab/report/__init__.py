"""Reports of runs: HTML, Markdown, CSV and JSON, and every plot as SVG or PNG. The functions for other packages are in write.py."""
