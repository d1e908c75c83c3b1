"""Modes of evaluation and of training, and what an evaluation leaves behind."""
