"""Search for floor plans of a diagram: constraint models, plans found, unmet requirements."""
