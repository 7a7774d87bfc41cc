"""Topic-clusters: covers of users by them, and Tamara's operations on them."""
