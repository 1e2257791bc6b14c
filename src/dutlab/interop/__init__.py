"""Other people's files: read into our words and written from them. Pure functions of text; nothing here reaches a host."""
