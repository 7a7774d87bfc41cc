"""MQTT 3.1.1 and 5 as state machines without I/O, clock or randomness: bytes and facts in, bytes and facts out.

From the wire upwards (each module uses only those before it):

    reasons      reason codes, and the error that carries one
    wire         integers, strings, binary data
    properties   the properties of MQTT 5
    packets      the fifteen packets as records
    topics       names, filters, and the table of names seen
    decode       body -> record, strictly            encode   record -> bytes
    stream       any chunks -> packets, bounded
    publish      the hot path: inline parse, one encoding for many receivers
    index        who wants a topic                   retained  what a topic said last
    options      what a server allows
    session      what outlives a connection; what a store must write before what is sent
    connection   one client's connection, server side
    fanout       one message to its local receivers
    timers       many deadlines, one call
    broker       all of it put together for one node
    client       the other side

A server, in short (the runtime adds sockets, a store, permissions and the network between nodes):

    broker = Broker(ServerOptions())
    connection = broker.open(now_s)                      # a socket was accepted
    ended = broker.serve(connection, chunk, now_s)       # bytes came in; at the end of the loop turn:
    write(b"".join(connection.output))                   #   this connection's output, then clear it,
    for session in broker.flush(): ...                   #   the output of everyone who got a message, likewise,
    for other, why in broker.take_closing(): ...         #   and connections that were taken over or timed out
    broker.lost(connection, now_s)                       # the socket is gone
    broker.on_time(now_s)                                # at broker.deadline_s, or every second

A node with peers does what `Broker.serve` does in its own order: it takes the facts of `Connection.receive`, confirms a
subscription when its interest has spread, acknowledges a message when it is safe, and gives `Broker.deliver` what comes
from other nodes.
"""
