"""Evaluations: which loops and functions are one, in which mode a model is run, and what an evaluation leaves."""
