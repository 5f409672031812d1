"""Audit of a judge before it is trusted: known defects, the rates at which it lets them pass, and a verdict."""
