"""Comparisons of runs, and of the lab's volumes with the model."""
