"""Rules of habitable floor plans: the parameters of each, and the plans that satisfy them."""
