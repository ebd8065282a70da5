"""The endpoint's processes and the way of a request through them.

supervisor  root: starts the worker, hands it keys and connections to the daemon, watches both
worker      without rights: HTTP on the loopback; signature, parameters, permission, answer
connection  HTTP/1.1 within bounds, a thread for each connection
labs        connections to the daemon that the supervisor opened
startup     what `headrace lab` does with it: start, find
"""
