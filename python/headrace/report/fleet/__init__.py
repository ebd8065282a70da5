"""The answers for a fleet: `words` has sums, columns and rows, `page` the page and its chart."""
