"""Offers of the market besides EBS volumes on EC2: RDS and Aurora as candidates; durability."""
