"""Fleets with more clients than one machine should hold: they stay tables, and only brokers by topics travel."""
