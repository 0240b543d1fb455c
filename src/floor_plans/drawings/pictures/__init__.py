"""Pictures of dimensioned floor plans."""
