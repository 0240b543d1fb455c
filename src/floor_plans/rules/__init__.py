"""Rules of habitable floor plans: their parameters, and checks of plans by them."""
