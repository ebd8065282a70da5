"""What lifting a limit would bring, which limit is next, and what to do about it.

gains          transactions on the changed storage, and the next limit
own_database   the database that the counters of a window describe
remedies       one modification of a volume, or one change of the instance
"""
