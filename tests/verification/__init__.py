"""The kernel against independent models of the same process: slow tests, run by `make verify`."""
