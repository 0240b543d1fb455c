"""What is said of a trained model and of its samples."""
