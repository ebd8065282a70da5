"""The page that `headrace page` opens: what the command line answers, to be seen and moved.

An unprivileged process on the loopback address, without state of its own: it calls the same public
functions as the command line. `answers.py` has what is answered, `guard.py` who may ask.
"""
