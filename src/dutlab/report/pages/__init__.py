"""Writers of reports: HTML, Markdown, CSV, JSON, and the tables in the form that reviews print."""
