"""Pictures of diagrams: one, a grid, completions, trajectories, statistics."""
