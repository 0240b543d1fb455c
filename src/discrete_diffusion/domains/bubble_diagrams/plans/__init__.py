"""From a diagram to boxes: which diagrams have a floor plan, by a constraint solver."""
