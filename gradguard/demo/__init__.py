"""The script of ``gradguard demo``, with its two leaks and without them."""
