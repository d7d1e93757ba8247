"""Tests of the benchmarks' figures."""
