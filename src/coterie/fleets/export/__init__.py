"""Plans written down for other people's brokers, one module a target."""
