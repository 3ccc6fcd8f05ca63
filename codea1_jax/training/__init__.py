"""A run: what it is made of, its state, its methods, and the loop."""
