"""Clients to brokers: the fewest copies between brokers within what each broker may hold."""
