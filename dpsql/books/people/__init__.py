"""Users of the service: who they are, what they may cause, and what they see."""
