"""The one writer of the SQL that makes private values codes and counts them; engines are dialects of it."""
