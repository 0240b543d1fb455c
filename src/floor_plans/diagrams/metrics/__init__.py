"""Metrics of sampled diagrams."""
