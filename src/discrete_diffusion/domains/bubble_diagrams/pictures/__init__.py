"""Pictures of diagrams: one, a grid, completions, a trajectory, heat maps."""
