"""Measures of how good sampled diagrams are."""
