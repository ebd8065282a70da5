"""Limits of volume types and instances on a day (facts), and their prices (price_list)."""
