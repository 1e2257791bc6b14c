"""Reports of runs: HTML, Markdown, CSV and JSON, and every plot as SVG or PNG. What programs call is in write.py."""
