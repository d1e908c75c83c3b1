"""The walk over one function: which value is where, what carries a graph, what outlives an iteration."""
