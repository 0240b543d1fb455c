"""What samples of molecules are like."""
