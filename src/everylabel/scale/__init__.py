"""Beyond one machine: pools and jobs on a Ray cluster."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everylabel.scale.features import ShardedFeatures
    from everylabel.scale.jobs import embed_shards
    from everylabel.scale.pool import ShardPool

# Imported on first use: embedding on one machine needs no Ray.
_LAZY = {
    "ShardPool": "everylabel.scale.pool",
    "ShardedFeatures": "everylabel.scale.features",
    "embed_shards": "everylabel.scale.jobs",
}

__all__ = ["ShardPool", "ShardedFeatures", "embed_shards"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
