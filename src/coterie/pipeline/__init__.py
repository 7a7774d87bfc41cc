"""From logs to a priced plan: everything that runs on Spark."""
