"""Files of plans, a module for each format; ``readers`` reads any of them."""
