"""Tool `fio`: its job file, the check of the drives that it may write to, and the reader of its output."""
