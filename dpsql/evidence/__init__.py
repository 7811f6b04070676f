"""What is known beside a release's own measurements: earlier releases, a public prior, which codes hold rows."""
