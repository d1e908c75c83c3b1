"""Backwards and what they leave: gradients, their resets, and what changes between a forward and its backward."""
