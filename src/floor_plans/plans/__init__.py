"""Floor plans of diagrams: whether a diagram has one, the shapes of its rooms, and its doors."""
