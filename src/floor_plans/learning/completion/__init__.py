"""Completions of partial diagrams: arranged in slots, weighed, sampled, written."""
