"""The sans-I/O core: events, the node, the wire, the shape of a system."""
