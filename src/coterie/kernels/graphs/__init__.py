"""Undirected graphs in arrays: paths through them and what lies near."""
