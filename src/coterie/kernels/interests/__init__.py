"""Who wants what: drawn, changed, compared and matched."""
