"""The explorer: one static page in which saved models run in the browser."""
