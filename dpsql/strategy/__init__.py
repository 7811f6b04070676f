"""What to measure, with which share: from public facts and a noisy number of rows only."""
