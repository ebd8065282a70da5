"""Commands for the days after: watch, doctor, forecast, fleet."""
