"""Recordings of storage whose trouble is known, made without any code of the model.

queueing    closed clients before a queue with caps, in steps of 0.1 s
scenarios   twelve troubles and mixtures of them, with parameters drawn by a seed
printing    what iostat, sar, vmstat and CloudWatch would have printed of them
judging     the headlines that are right, and a table of what the doctor said
"""
