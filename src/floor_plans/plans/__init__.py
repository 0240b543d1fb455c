"""Floor plans of diagrams: which have one and which, by a solver; their files and pictures."""
