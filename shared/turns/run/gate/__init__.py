"""What stands before the model in a run of a schedule."""
