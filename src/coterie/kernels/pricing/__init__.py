"""What a design costs: every publication followed through its channels."""
