"""What is kept from one iteration to the next: graphs and other memory, in collections, caches, hooks, contexts."""
