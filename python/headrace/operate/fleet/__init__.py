"""Many volumes at once: what there is, what each needs, what to change, and how to change it back.

inventory    volumes and instances, from the AWS CLI's own JSON
"""
