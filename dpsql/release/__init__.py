"""From a request to a release: the path that synthetic tables, queries and discoveries take."""
