"""A simulated annotator, who knows the truth and labels through the HTTP API."""

from everylabel.serving.simulation.people import Point, simulate
from everylabel.serving.simulation.process import server_process

__all__ = ["Point", "server_process", "simulate"]
