"""Estimates the gain of lifting a limit, the limit that binds next, and the change to make.

gains          transactions on the changed storage, and the next limit
own_database   the database that the counters of a window describe
remedies       one modification of a volume, or one change of the instance
"""
