"""Composing a config from YAML files, registries and the words of a command."""
