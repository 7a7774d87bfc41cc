"""The one accountant: prices designs, turns counts into ledgers, and knows the lower bounds."""
