"""Does the simulator predict the real loop? Fitted to clean runs, it predicts runs under other rewards."""
