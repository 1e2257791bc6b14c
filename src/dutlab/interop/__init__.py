"""Import and export of other tools' files: pure functions of text, without any access to hosts."""
