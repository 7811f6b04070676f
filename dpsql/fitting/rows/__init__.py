"""Given rows, weighted so that they answer as was measured; and the single record that answers best."""
