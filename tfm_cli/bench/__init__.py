"""Models side by side: how well, how fast, on what machine; measured in one run and shown as a table and a picture."""
