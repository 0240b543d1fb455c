"""Trained model shipped with this package."""

MODEL = "plans-small"
