"""Judges which limit binds a server now, what clients feel of it, what lifting it would bring, and
which limit is next.

diagnosis         from evidence to a diagnosis; recorded: the same of a recording of a device
thresholds        the table of all thresholds, each with its source and test
signals           evidence as the few figures that verdicts rest on
judging           the verdicts in their order
innocence         what acquits storage; storage_verdicts: what does not
gains             what lifting a limit brings; own_database, remedies: what that rests on
model             findings and diagnoses as values; output: as text, Nagios
trusted_advisor   AWS's own rules as they are published
"""
