"""The studio: a page to draw, complete and realise diagrams, and the JSON API behind it."""

LOCAL = ("127.0.0.1", "localhost", "::1")  # hosts that only this machine reaches
