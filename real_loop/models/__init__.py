"""Models that can be asked: providers by way of inspect_ai, local ones by llama.cpp; budgets, and failures kept apart."""

from real_loop.models.budget import Budget, BudgetReached, Spent
from real_loop.models.client import Client, Reply, Request, open_client
from real_loop.models.endpoint import notices
from real_loop.models.errors import Overflow, ServiceError, redact
from real_loop.models.patience import Patience

__all__ = [
    "Budget",
    "BudgetReached",
    "Client",
    "Overflow",
    "Patience",
    "Reply",
    "Request",
    "ServiceError",
    "Spent",
    "notices",
    "open_client",
    "redact",
]
