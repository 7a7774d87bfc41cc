"""What `import coterie` offers (docs/reference/api.md): logs, plans, prices, comparisons, simulations, live networks.

The command line is built on this and on nothing else. Every module here loads what it needs when it is needed.
"""
