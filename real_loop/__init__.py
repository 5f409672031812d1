"""The loop with real LLM roles. Nothing is here yet: the simulator comes first."""
