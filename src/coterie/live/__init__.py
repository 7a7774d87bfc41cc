"""Driver 2 of a broker: asyncio, sockets, files. It carries out orders and tells facts; it decides nothing."""
