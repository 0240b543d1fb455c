"""What models do with diagrams: data sets, conditions, sampling, completion, measurements."""
