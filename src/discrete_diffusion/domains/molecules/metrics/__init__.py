"""Metrics of samples of molecules."""
