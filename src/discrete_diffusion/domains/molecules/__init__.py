"""Molecules: heavy atoms and the bonds between them."""
