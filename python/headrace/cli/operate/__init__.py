"""Commands for the days after: watch, export, doctor, forecast, fleet."""
