"""Measurements of a trained model and of its samples."""
