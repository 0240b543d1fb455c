"""Search for floor plans of a diagram: constraint models, plans of them, and unmet requirements."""
