"""A simulated annotator, who knows the truth and labels through the HTTP API."""

from everylabel.simulation.people import Point, simulate
from everylabel.simulation.process import server_process

__all__ = ["Point", "server_process", "simulate"]
