"""The laboratory: every table and figure of the five papers as a registered experiment."""
