"""``load``, samples and measurements, for Python and the command line; composes no config."""
