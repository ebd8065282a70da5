"""Loads on real devices, measured.

fio.py           fio: run it, read what it measured
conformance.py   do the lab's volumes perform as the catalog and the model say?
"""
