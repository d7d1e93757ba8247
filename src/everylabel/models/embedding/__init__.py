"""Texts, images and tables as features; `embed` is all a user needs."""

from everylabel.models.embedding.embed import embed

__all__ = ["embed"]
