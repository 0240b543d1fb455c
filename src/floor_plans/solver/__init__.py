"""The search for floor plans of a diagram: boxes, outlines, wishes, doors, and what was not met."""
