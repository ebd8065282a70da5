"""Running servers day to day, on AWS or on the lab."""
