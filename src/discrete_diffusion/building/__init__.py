"""From a config to objects: backbones and algorithms."""
