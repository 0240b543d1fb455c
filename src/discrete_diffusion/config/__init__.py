"""Names, options, presets and plug-ins: what a config may say."""
