"""The fleets people already run: observed, and given plans they can follow."""
