"""What the market offers besides volumes of one's own: durability, and RDS and Aurora as candidates."""
