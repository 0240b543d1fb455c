"""The studio: a page to draw, complete and realise diagrams, and the JSON API behind it."""
