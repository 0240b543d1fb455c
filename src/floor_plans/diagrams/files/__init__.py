"""Diagrams and partial diagrams in files, and the fields that all formats share."""
