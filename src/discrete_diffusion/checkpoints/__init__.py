"""Checkpoints: what is in one, how an algorithm comes back out of it, when a run may go on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
