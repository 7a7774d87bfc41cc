"""Trees: made of paths, grown for terminals, with little stretch, and how deep they are."""
