"""Commands that simulate, plan and prove."""
