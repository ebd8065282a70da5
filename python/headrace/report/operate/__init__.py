"""What operating commands show: in words, as tables, as pages."""
