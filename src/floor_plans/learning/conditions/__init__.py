"""Facts of a plan that a model is conditioned on, and how the model uses them."""
