"""Serving from Python.  `tenon serve` is the server; `tenon.serve.ray` runs replicas of models under Ray Serve."""
