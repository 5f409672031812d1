"""Fast versions of :mod:`sim.reference`, one module per backend. Arrays in, arrays out; imported where used."""
