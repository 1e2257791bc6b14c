"""Reports of runs: HTML, Markdown, CSV and JSON, and every plot as SVG or PNG."""

from dutlab.report.write import (
    FORMATS,
    IMAGES,
    print_publication,
    print_report,
    report_finished,
    report_text,
    write_and_gather,
    write_image,
    write_images,
    write_plots,
    write_publication,
    write_report,
    write_sample_plots,
)

__all__ = [
    "FORMATS",
    "IMAGES",
    "print_publication",
    "print_report",
    "report_finished",
    "report_text",
    "write_and_gather",
    "write_image",
    "write_images",
    "write_plots",
    "write_publication",
    "write_report",
    "write_sample_plots",
]
