"""Beyond one machine: pools and jobs on a Ray cluster. Nothing distributed is written here that Ray does."""
