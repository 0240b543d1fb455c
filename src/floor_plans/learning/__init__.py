"""Learning from diagrams: data sets, conditions, sampling, completion, evaluation."""
