"""Many volumes at once: what there is, what each needs, what to change, and how to change it back.

inventory    volumes and instances, from the AWS CLI's own JSON
"""

# The most risk of a change that is carried out without asking for more, percent: ours, one of the
# ten fortnights that are drawn.
MOST_RISK_PERCENT = 10.0
