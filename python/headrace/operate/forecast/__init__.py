"""When do the credits run out, when is the volume full, when does growth meet a limit?

history   a recording as days of five minutes on its own clock
credits   the next hours from days like those recorded, simulated: when the credits are gone
trend     a robust trend of daily figures with its interval, or "no trend"
space     when the volume is full
growth    when the busiest five minutes of a day meet a limit
ledger    forecasts are kept, and scored against what came
"""
