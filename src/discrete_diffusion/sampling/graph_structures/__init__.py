"""Narrowings of samples that are graphs, whatever their nodes and edges stand for."""
