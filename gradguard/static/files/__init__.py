"""What the bytes and the text of a file say before anything of it is parsed."""
