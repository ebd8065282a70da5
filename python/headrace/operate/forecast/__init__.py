"""When do the credits run out, when is the volume full, when does growth meet a limit?"""
