"""halfblind: self-evolving skill libraries under a fallible judge, simulated.

Importing this package does nothing: no compilation, no folder, no device.
"""

__version__ = "0.1.0"
