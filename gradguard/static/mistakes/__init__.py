"""Mistakes that are told of a function when it was read, and are no events in it: rules only say them."""
