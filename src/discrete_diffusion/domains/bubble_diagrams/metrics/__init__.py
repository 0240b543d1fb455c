"""How good sampled diagrams are."""
