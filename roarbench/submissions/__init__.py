"""Read and check a submitted estimator, one Python file, before it may enter a suite."""
