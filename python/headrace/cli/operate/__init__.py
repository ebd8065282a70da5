"""Commands that watch, diagnose and forecast what runs."""
