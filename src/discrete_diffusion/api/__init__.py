"""Loading, sampling and measuring of trained models, for Python and the command line."""
