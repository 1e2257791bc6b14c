"""What a report says, as data, and how trials become it: no HTML, no file."""
