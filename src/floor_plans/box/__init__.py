"""The model that comes with this package."""

MODEL = "plans-small"
