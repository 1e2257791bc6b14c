"""Every plot, drawn here as SVG."""
