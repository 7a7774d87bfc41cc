"""The brokers people already run: observed into journals, and given plans as configuration of their own."""
