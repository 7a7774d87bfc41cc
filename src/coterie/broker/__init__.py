"""A whole node as a state machine: facts in, orders out, no I/O, no clock, no ambient randomness.

Start with `facts`, `orders` and `writes`: they are all that a driver knows (`machine.Broker` joins them). Two drivers
run it: `live` (asyncio, sockets, a store on disk) and the simulator (virtual time, a simulated disk, faults).
"""
