"""Rings: who owns a key, which fingers a node has, and who sits beside whom."""
