"""The console: a command people enjoy."""
