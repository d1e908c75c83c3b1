"""What a loss is made of: its terms, its targets, and where their graphs are cut."""
