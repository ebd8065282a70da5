"""Many volumes at once: what there is, what each needs, what to change, and how to undo it."""

# The most risk of a change that is carried out without asking for more, percent: ours, one of the
# ten fortnights that are drawn.
MOST_RISK_PERCENT = 10.0
