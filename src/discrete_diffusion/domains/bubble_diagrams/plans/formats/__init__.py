"""Dimensioned plans in files that other tools read, a module for each format."""
