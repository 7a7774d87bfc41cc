"""A plan's life: its type, its store, its slices, what a change means, how a running network is changed over, its bill.

Read in this order: `plan` (the type), `tables` (what ids mean), `store` (versions on disk), `diff`, `orders` (what
nodes are told), `rollout`, `bill` (predicted) and `measured`.
"""
