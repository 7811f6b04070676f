"""What is done to accounts: charge, change, verify, accept."""
