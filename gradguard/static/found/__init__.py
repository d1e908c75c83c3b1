"""What may be wrong in a function, a file for each sort of mistake."""
