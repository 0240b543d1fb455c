"""Bubble diagrams: rooms, relations, tokens, files, the generator, metrics, pictures."""
