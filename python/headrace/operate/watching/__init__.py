"""Watching a server and its volumes, second by second.

moment     what is known at one moment, as plain values
opening    from a target to its moments
following  from ticks of evidence to moments, and the last hour of them, packed
judging    the verdict of the last minute
screen     a moment as lines
terminal   a terminal while the screen is on it
loop       moments and keys together
light      libraries that are loaded when they are used
"""
