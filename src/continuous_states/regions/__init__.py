"""Regions of a genome as rows of motif scores: simulated, or read from a table."""
