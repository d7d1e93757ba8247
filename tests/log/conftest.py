"""Stores of both kinds."""

from tests.fixtures import postgres, where

__all__ = ["postgres", "where"]
