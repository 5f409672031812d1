"""Is a judge good enough? From verdicts on cases of known truth to error rates, a place on the plane and a verdict; see README.md."""
