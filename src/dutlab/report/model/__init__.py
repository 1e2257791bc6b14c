"""Reports as data, and how trials become them: no HTML, no file."""
