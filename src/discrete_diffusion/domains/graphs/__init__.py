"""Graphs of any kind: benchmark graphs, or your own, with types of nodes and edges if you like."""
