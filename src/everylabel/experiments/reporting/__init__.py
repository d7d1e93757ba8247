"""From stored measurements to a report: means, claims, plots and pages. Nothing here measures."""
