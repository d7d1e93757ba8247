"""Files that come in and go out: tables, the model, Label Studio."""
