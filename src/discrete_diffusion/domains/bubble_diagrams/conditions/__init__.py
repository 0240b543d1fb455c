"""Facts that a model is told of a plan, and what it makes of them."""
