"""Tables: which are protected, public, linked or elsewhere, and what their owners declared."""
