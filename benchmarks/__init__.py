"""Speed, measured on request: ``make bench``."""
