"""The exact update measured against retraining, the paper's update and other online learners."""
