"""What a synthetic table is good for, beside the real one: arrays only. What it finds is private."""
