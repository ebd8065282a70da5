"""Comparisons: of two runs or groups of runs (compare), and of the lab's volumes with the model
(conformance)."""
