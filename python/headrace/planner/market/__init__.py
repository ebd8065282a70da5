"""What can be bought besides volumes of one's own: RDS and Aurora as candidates; durability."""
