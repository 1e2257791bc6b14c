"""Report model, and its construction from trials; no HTML, no files."""
