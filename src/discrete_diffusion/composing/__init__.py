"""From YAML files, registries and the words of a command to a config."""
