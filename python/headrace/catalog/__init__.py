"""What can be bought on a day: limits of volume types and instances (facts), and prices
(price_list)."""
