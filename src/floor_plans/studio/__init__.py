"""The studio: a page to draw, complete and realise diagrams, and its JSON API."""

LOCAL = ("127.0.0.1", "localhost", "::1")  # hosts that only this machine reaches
