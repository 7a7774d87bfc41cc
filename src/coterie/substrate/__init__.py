"""Rings to route on and trees to spread along, for all nodes at once as arrays and for one node at a time."""
